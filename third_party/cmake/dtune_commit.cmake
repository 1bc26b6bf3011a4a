# Writes FILE, the header that says which commit ROOT is at ("": not known),
# and leaves it as it is where that is the same:
#   cmake -DROOT=... -DFILE=... -P dtune_commit.cmake
execute_process(
  COMMAND git --git-dir=${ROOT}/.git rev-parse HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT "#define DTUNE_COMMIT \"${commit}\"\n")
