#!/usr/bin/env bash
# The layer rule of ARCHITECTURE.md: who may include whom.
#   check_layers.sh <root of the repository>
set -euo pipefail
cd "${1:?usage: check_layers.sh <root of the repository>}"
bad=0

# Files matching $1 may include, of our own folders, only those matching $2.
only() {
    local file folder
    while IFS=: read -r file folder; do
        [[ $folder =~ ^($2)/ ]] && continue
        echo "$file includes \"$folder\", allowed are: $2"
        bad=1
    done < <(grep -HoE '^#include "(acl|aclnn|aclnnop|gradus|hccl|base|simd|gemm|runtime|sanitize|trace|ops|testing|fuzz|cli)/[^"]+' $(git ls-files "$1") 2>/dev/null \
        | sed 's/#include "//')
}

only 'src/base/*' "base|acl|aclnn"
only 'src/simd/*' 'base|simd'
only 'src/gemm/*' 'base|simd|gemm|testing|cli/bench'  # testing, cli: its test and bench
only 'src/runtime/*' 'base|runtime|acl|aclnn|gradus'
only 'src/sanitize/*' 'base|runtime|sanitize|acl'
only 'src/trace/*' 'base|runtime|trace|acl|gradus'
only 'src/aclnn/*' 'base|runtime|aclnn|acl|gradus'
only 'src/hccl/*' 'base|simd|runtime|hccl|acl'
only 'testing/*' 'testing|acl|aclnn|gradus|aclnnop|cli/judge|gemm'  # one judge for all; gemm: product.h, for its test
only 'fuzz/*' 'fuzz|testing|cli|acl|aclnn|gradus|hccl|base'  # base: what nothing public shows
only 'tests/*' 'testing|acl|aclnn|gradus|aclnnop|hccl|tests|base|trace|cli'  # base, trace: what nothing public shows
only 'examples/*' 'acl|aclnn|gradus|aclnnop|hccl'
only 'cli/*' 'cli|acl|aclnn|gradus'
only 'cli/base/*' 'cli/base'
only 'cli/tensor/*' 'cli/(base|tensor)|acl|aclnn'
only 'cli/judge/*' 'cli/(base|tensor|judge)|acl|aclnn|gradus'  # the operators' tests link it
only 'cli/output/*' 'cli/(base|output)|acl|gradus'
only 'python/*' 'acl|aclnn|gradus|aclnnop'

if grep -lE '#include "simd/' $(git ls-files 'src/hccl/*') | grep -v '^src/hccl/reduce'; then
    echo "of hccl only reduce may use simd"
    bad=1
fi

# simd and gemm belong to kernels; an operator never includes another; base knows the interface's words, not aclnn's code.
for file in $(git ls-files 'src/ops/*/*'); do
    family=$(cut -d/ -f3 <<<"$file")
    name=$(basename "$file")
    if [[ $name != kernel* ]] && grep -qE '#include "(simd|gemm)/' "$file"; then
        echo "$file includes simd or gemm: only kernels may"
        bad=1
    fi
    if grep -E '#include "ops/' "$file" | grep -qvE "\"ops/($family/|families\.h)"; then
        echo "$file includes another operator"
        bad=1
    fi
done
if grep -nE '#include "aclnn/' $(git ls-files 'src/base/*' 'src/runtime/*') | grep -vE 'aclnn/(acl_meta|aclnn_base)\.h'; then
    echo "base and runtime may use the words of aclnn's public headers only"
    bad=1
fi
exit $bad
