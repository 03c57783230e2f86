# Source this, in sh, bash or zsh: programs written for CANN then build and run against this prefix.
if [ -n "${BASH_SOURCE:-}" ]; then
  gradus_script=${BASH_SOURCE[0]}
elif [ -n "${ZSH_VERSION:-}" ]; then
  eval 'gradus_script=${(%):-%x}'  # words of zsh, which others would not even read over
else
  # Plain sh does not say what it reads; the kernel knows which file it has open. read, because it is no other process.
  gradus_script=
  read -r gradus_pid gradus_rest </proc/self/stat
  for gradus_open in "/proc/$gradus_pid/fd"/*; do
    gradus_rest=$(readlink "$gradus_open")
    case $gradus_rest in */set_env.sh) gradus_script=$gradus_rest ;; esac
  done
  unset gradus_pid gradus_rest gradus_open
fi
if [ -f "$gradus_script" ]; then
  ASCEND_HOME_PATH=$(cd "$(dirname "$gradus_script")" && pwd)
  export ASCEND_HOME_PATH
  export ASCEND_TOOLKIT_HOME="$ASCEND_HOME_PATH"
  export PATH="$ASCEND_HOME_PATH/bin:$PATH"
  export LD_LIBRARY_PATH="$ASCEND_HOME_PATH/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export CPATH="$ASCEND_HOME_PATH/include${CPATH:+:$CPATH}"
  export LIBRARY_PATH="$ASCEND_HOME_PATH/lib64${LIBRARY_PATH:+:$LIBRARY_PATH}"
  export CMAKE_PREFIX_PATH="$ASCEND_HOME_PATH${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
  export PKG_CONFIG_PATH="$ASCEND_HOME_PATH/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
  # Completion of the gradus command, where somebody types.
  case $- in *i*)
    if [ ! -d "$ASCEND_HOME_PATH/share" ]; then
      :  # a distribution's package: it lies where shells look by themselves
    elif [ -n "${BASH_VERSION:-}" ]; then
      . "$ASCEND_HOME_PATH/share/bash-completion/completions/gradus"
    elif [ -n "${ZSH_VERSION:-}" ]; then
      eval 'fpath=("$ASCEND_HOME_PATH/share/zsh/site-functions" $fpath)'
      autoload -Uz compinit _gradus
      whence compdef >/dev/null || compinit
      compdef _gradus gradus
    fi ;;
  esac
else
  echo "set_env.sh: this shell does not say where the script is; use bash or zsh" >&2
fi
unset gradus_script
