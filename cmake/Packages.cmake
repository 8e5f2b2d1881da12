# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Debian packages of what is installed, one for each component, made by CPack: libtenure0 (runtime), libtenure-dev
# (development) and tenure (tools). Their files belong below /usr: the preset package configures so.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Tenure Authors")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Tenure Authors")
set(CPACK_PACKAGE_NAME tenure)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Shared libraries, for programs that are linked with them:
recoverable memory and stores of C++ objects, and the C interfaces librvm and
libpobj.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libtenure0)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Development files, to compile programs that use Tenure:
headers, static libraries, files for CMake and pkg-config, the manual and
examples.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtenure-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libtenure0 (= ${version}), libisal-dev, libzstd-dev")

set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Commands: tenure, which looks at stores, at logs and at
their history; rdsinit and rvmutl, of the classic interface; and what gdb shows
of stores.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME tenure)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS gdb)

# In packages only.
foreach(component runtime development tools)
  string(TOUPPER ${component} upper)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/copyright COMPONENT ${component} EXCLUDE_FROM_ALL
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)

include(CPack)
