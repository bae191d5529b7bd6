# SPDX-License-Identifier: Apache-2.0
# One INTERFACE target carries every flag; nothing is set globally but the build type's
# optimisation level, because CMake's own RelWithDebInfo would switch the asserts off.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(kvf_flags INTERFACE)
target_compile_features(kvf_flags INTERFACE c_std_17)
target_compile_definitions(kvf_flags INTERFACE _GNU_SOURCE)
target_include_directories(kvf_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(kvf_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
  -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wcast-qual -Wwrite-strings -Wswitch-enum
  -fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero
  -fno-strict-aliasing -fno-delete-null-pointer-checks -fvisibility=hidden
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_link_options(kvf_flags INTERFACE
  LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)

if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 16)
  # Before 16 clang hides automatic zeroing behind a switch that names its own removal.
  target_compile_options(kvf_flags INTERFACE
    -enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang)
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64)$")
  target_compile_options(kvf_flags INTERFACE -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  target_compile_options(kvf_flags INTERFACE -mbranch-protection=standard)
endif()

string(FIND "${CMAKE_C_FLAGS}" "-fsanitize=" sanitize_at)
if(sanitize_at EQUAL -1)
  # clang leaves the sanitizers' own symbols of a shared library to the program.
  target_link_options(kvf_flags INTERFACE LINKER:--no-undefined)
endif()

# Fortified libc calls need optimisation, and hide bugs from the sanitizers' interceptors.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND sanitize_at EQUAL -1)
  set(level 3)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
    set(level 2)
  endif()
  target_compile_options(kvf_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level})
endif()

if(KVF_WERROR)
  target_compile_options(kvf_flags INTERFACE -Werror)
endif()
