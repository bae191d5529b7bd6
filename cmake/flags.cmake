# SPDX-License-Identifier: Apache-2.0
# One INTERFACE target carries every flag; nothing is set globally.
add_library(kvf_flags INTERFACE)
target_compile_features(kvf_flags INTERFACE c_std_17)
target_compile_definitions(kvf_flags INTERFACE _GNU_SOURCE)
target_include_directories(kvf_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(kvf_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
  -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wcast-qual -Wwrite-strings -Wswitch-enum
  -fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero
  -fno-strict-aliasing -fno-delete-null-pointer-checks -fvisibility=hidden)
if(KVF_WERROR)
  target_compile_options(kvf_flags INTERFACE -Werror)
endif()
