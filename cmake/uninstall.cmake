# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     cmake -P uninstall.cmake BUILD_DIR
#
# Removes the files that the last `cmake --install` of this build has installed, below DESTDIR if it is set, and the
# directories of which nobody but Tenure has anything.
set(build "${CMAKE_ARGV3}")
set(manifest "${build}/install_manifest.txt")
if(NOT EXISTS "${manifest}")
  message(FATAL_ERROR "Nothing is known to be installed: there is no ${manifest}")
endif()
file(STRINGS "${manifest}" files)

set(directories "")
foreach(file IN LISTS files)
  set(file "$ENV{DESTDIR}${file}")
  if(EXISTS "${file}" OR IS_SYMLINK "${file}")
    file(REMOVE "${file}")
    if(EXISTS "${file}" OR IS_SYMLINK "${file}")
      message(FATAL_ERROR "Cannot remove ${file}")
    endif()
    message(STATUS "Removed ${file}")
  endif()
  # All that lie in one named after us.
  while(file MATCHES "/(tenure|rvm)/")
    get_filename_component(file "${file}" DIRECTORY)
    list(APPEND directories "${file}")
  endwhile()
endforeach()

# The deepest first.
list(REMOVE_DUPLICATES directories)
list(SORT directories ORDER DESCENDING)
foreach(directory IN LISTS directories)
  file(GLOB left LIST_DIRECTORIES true "${directory}/*" "${directory}/.*")
  list(FILTER left EXCLUDE REGEX "/\\.\\.?$")
  if(IS_DIRECTORY "${directory}" AND NOT left)
    file(REMOVE_RECURSE "${directory}")
  endif()
endforeach()

file(REMOVE "${manifest}")
include("${build}/src/tell_linker.cmake" OPTIONAL)
