# SPDX-License-Identifier: Apache-2.0
# ucx::ucp and ucx::ucs: the system's, or those of another prefix (an unpacked wheel), which
# is then also where the programs look for them at run time. The files are looked up one by
# one because the package's own ones name folders that are not there: CMake's in Debian 13,
# pkg-config's in the wheel.
set(KVF_UCX_ROOT "" CACHE PATH "Prefix of the UCX to build against; empty: the system's")
set(where)
if(KVF_UCX_ROOT)
  set(where PATHS ${KVF_UCX_ROOT} PATH_SUFFIXES lib include NO_DEFAULT_PATH)
endif()

find_path(KVF_UCX_INCLUDE ucp/api/ucp.h ${where} REQUIRED NO_CACHE)
file(STRINGS ${KVF_UCX_INCLUDE}/ucp/api/ucp_version.h version
     REGEX "^#define UCP_API_(MAJOR|MINOR) ")
string(REGEX REPLACE "[^0-9;]" "" version "${version}")
list(JOIN version "." version)
if(version VERSION_LESS 1.13)
  message(FATAL_ERROR "UCX 1.13 or later is needed, ${KVF_UCX_INCLUDE} has ${version}")
endif()

foreach(part ucp ucs)
  find_library(KVF_UCX_${part} ${part} ${where} REQUIRED NO_CACHE)
  add_library(ucx::${part} SHARED IMPORTED)
  set_target_properties(ucx::${part} PROPERTIES
    IMPORTED_LOCATION ${KVF_UCX_${part}}
    INTERFACE_INCLUDE_DIRECTORIES ${KVF_UCX_INCLUDE})
endforeach()
if(KVF_UCX_ROOT)
  # RPATH, not RUNPATH: it also serves what UCX itself loads.
  target_link_options(ucx::ucp INTERFACE
    LINKER:--disable-new-dtags LINKER:-rpath,${KVF_UCX_ROOT}/lib)
endif()
message(STATUS "UCX ${version}: ${KVF_UCX_ucp}")
