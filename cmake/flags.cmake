# Flags of everything we compile ourselves. No -ffast-math; products and sums are fused only where the code says so,
# or the vector loop and its tail would round differently.
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
endif()
add_library(gradus_flags INTERFACE)
target_compile_options(gradus_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -ffp-contract=off
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-ignored-attributes>)
if(GRADUS_COMPILER_SANITIZE)
  add_compile_options(-fsanitize=${GRADUS_COMPILER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GRADUS_COMPILER_SANITIZE})
endif()

# Two builds of the same sources are the same bytes, wherever they are made (./build.sh check repro).
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)

# Hardening of what is shipped: what Debian calls hardening=+all, and the C++ library's own assertions. It stays out of
# kernels, which take no sizes from a caller that a plan has not checked, and where a canary or a probe would be paid for
# with every row. tests/check_hardening.sh looks for it in the files.
set(GRADUS_HARDENING on CACHE STRING "on; off or kernels (those, too) to measure what it costs")
set(kernel_options "")
set(assertions "")
add_library(gradus_hardening INTERFACE)
target_link_options(gradus_hardening INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed)
if(NOT GRADUS_HARDENING STREQUAL "off" AND NOT GRADUS_COMPILER_SANITIZE)  # a sanitizer sees more, and wants its own calls
  # twice: a distribution's flags may have another level, which optimisation alone can use
  target_compile_options(gradus_hardening INTERFACE
    -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_compile_options(gradus_hardening INTERFACE -fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    target_compile_options(gradus_hardening INTERFACE -mbranch-protection=standard)
  endif()
  if(NOT GRADUS_HARDENING STREQUAL "kernels")
    set(kernel_options -fno-stack-protector -fno-stack-clash-protection -U_FORTIFY_SOURCE)
  endif()
endif()
if(NOT GRADUS_HARDENING STREQUAL "off")
  set(assertions _GLIBCXX_ASSERTIONS)
endif()
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)

function(gradus_kernels)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${kernel_options})
endfunction()

# Branches and conditions of these files are counted (testing/coverage.py). Counts outlive a crash.
function(gradus_count)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS
               -fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc -mllvm -runtime-counter-relocation)
endfunction()

# Several files of a target at once, where most of a compilation is the same long headers: JSON, formatting, GoogleTest.
# -DCMAKE_UNITY_BUILD=OFF: a command for every file, which tools want.
function(gradus_compile_together)
  if(NOT DEFINED CMAKE_UNITY_BUILD)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()
