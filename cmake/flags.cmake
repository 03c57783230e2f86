# Flags of everything we compile ourselves. No -ffast-math; products and sums are fused only where the code says so,
# or the vector loop and its tail would round differently.
add_library(gradus_flags INTERFACE)
target_compile_options(gradus_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion $<$<CXX_COMPILER_ID:GNU>:-Werror> -ffp-contract=off
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-ignored-attributes>)
if(GRADUS_COMPILER_SANITIZE)
  add_compile_options(-fsanitize=${GRADUS_COMPILER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GRADUS_COMPILER_SANITIZE})
endif()
