# Source this: programs written for CANN then build and run against this prefix.
if [ -n "${BASH_SOURCE:-}" ]; then
  ASCEND_HOME_PATH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
elif [ -n "${ZSH_VERSION:-}" ]; then
  ASCEND_HOME_PATH=$(cd "$(dirname "${(%):-%x}")" && pwd)
else
  ASCEND_HOME_PATH=$(cd "$(dirname "$0")" && pwd)
fi
export ASCEND_HOME_PATH
export ASCEND_TOOLKIT_HOME="$ASCEND_HOME_PATH"
export PATH="$ASCEND_HOME_PATH/bin:$PATH"
export LD_LIBRARY_PATH="$ASCEND_HOME_PATH/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CPATH="$ASCEND_HOME_PATH/include${CPATH:+:$CPATH}"
export LIBRARY_PATH="$ASCEND_HOME_PATH/lib64${LIBRARY_PATH:+:$LIBRARY_PATH}"
export CMAKE_PREFIX_PATH="$ASCEND_HOME_PATH${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
