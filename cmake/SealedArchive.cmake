# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# A static library with libstdc++ inside, which shows the names of a C interface and no others: one object, linked of all
# its parts. What is C++ in it cannot be replaced by, or clash with, what the program that links it has.
#
#     tenure_can_seal(VARIABLE)
#     tenure_seal(OBJECT NAME_PATTERNS... OBJECTS objects...)
#
# tenure_can_seal says whether it, and a shared library that is closed in the same way, can be made here: of GNU's libstdc++
# as an archive, with GNU ld and objcopy, and without sanitizers, which want to see into it.

function(tenure_can_seal variable)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE archive
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_program(TENURE_GNU_LD NAMES ld.bfd)
  mark_as_advanced(TENURE_GNU_LD)
  if(IS_ABSOLUTE "${archive}" AND TENURE_GNU_LD AND CMAKE_OBJCOPY AND NOT TENURE_SANITIZE AND
     NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    set(TENURE_LIBSTDCXX "${archive}" PARENT_SCOPE)
    set(${variable} TRUE PARENT_SCOPE)
  else()
    set(${variable} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(tenure_seal object)
  cmake_parse_arguments(PARSE_ARGV 1 sealed "" "" "OBJECTS")
  list(TRANSFORM sealed_UNPARSED_ARGUMENTS PREPEND --keep-global-symbol=)
  # Without the groups: the linker would take the program's copy of an inline function for the one in here, which is local.
  # objcopy makes weak symbols local, but not the unique ones of C++.
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${TENURE_GNU_LD} -r --force-group-allocation -o ${object} ${sealed_OBJECTS} ${TENURE_LIBSTDCXX}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --weaken-symbol=_Z* ${object}
    COMMAND ${CMAKE_OBJCOPY} --wildcard ${sealed_UNPARSED_ARGUMENTS} ${object}
    DEPENDS ${sealed_OBJECTS} COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
