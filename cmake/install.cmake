# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: the programs, libkvferry with its headers, and the two
# ways to find it (find_package(kvferry) gives kvferry::client, pkg-config gives kvferry).
# Everything is relocatable: no absolute path is written into an installed file.
include(CMakePackageConfigHelpers)

target_sources(kvferry PUBLIC FILE_SET HEADERS
  BASE_DIRS ${PROJECT_SOURCE_DIR}/include
  FILES
    ${PROJECT_SOURCE_DIR}/include/kvferry/kvferry.h
    ${PROJECT_SOURCE_DIR}/include/kvferry/layout.h
    ${PROJECT_SOURCE_DIR}/include/kvferry/status.h)

# The soname follows the ABI number of the header, not the release.
set_target_properties(kvferry PROPERTIES
  EXPORT_NAME client
  SOVERSION ${KVF_ABI_VERSION}
  VERSION ${KVF_ABI_VERSION}.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  VERIFY_INTERFACE_HEADER_SETS ON)
add_library(kvferry::client ALIAS kvferry)

install(TARGETS kvferry EXPORT kvferry
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS kvferryd kvferryctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvferry)
install(EXPORT kvferry NAMESPACE kvferry:: FILE kvferryConfig.cmake
        DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvferryConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvferryConfigVersion.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/kvferry.pc.in
               ${PROJECT_BINARY_DIR}/kvferry.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kvferry.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
