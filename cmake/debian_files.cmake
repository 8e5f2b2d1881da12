# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# CPack runs it before it packs: Debian's manual pages are compressed, and its static libraries have no debug information.
file(GLOB_RECURSE files ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(file IN LISTS files)
  if(file MATCHES "/man/man[1-9]/[^/]+\\.[1-9]$")
    execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
  elseif(file MATCHES "\\.a$")
    execute_process(COMMAND strip --strip-debug --enable-deterministic-archives ${file} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
