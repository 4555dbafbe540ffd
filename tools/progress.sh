# How far a long step is: for tools/setup.sh and tools/build.sh, which source this file.
#
# On a terminal, one line that is drawn over. Elsewhere a line every PLAIN_SECONDS at most, also while the step itself
# says nothing: nobody should take it for hung.

readonly PLAIN_SECONDS=5    # a program that is silent for 10 s looks hung
readonly ESTIMATE_SECONDS=5 # before, the time left is a guess

# progress_begin WHO FD: the lines begin with WHO and go to FD.
progress_begin() {
  progress_who=$1 progress_fd=$2 progress_begun=$SECONDS progress_last=$SECONDS progress_text='' progress_width=''
  if [[ -t $progress_fd ]]; then
    progress_width=$(stty size <&"$progress_fd" 2>/dev/null | cut -d' ' -f2) || progress_width=''
    ((progress_width > 20)) || progress_width=80  # a pseudo terminal may have no size
  fi
}

# progress TEXT: shows it if it is time to.
progress() {
  local line="$progress_who: $1"
  if [[ -n $progress_width ]]; then
    [[ $line == "$progress_text" ]] || printf '\r%s\e[K' "${line:0:progress_width-1}" >&"$progress_fd"
    progress_text=$line
  elif ((SECONDS - progress_last >= PLAIN_SECONDS)); then
    printf '%s\n' "$line" >&"$progress_fd"
    progress_last=$SECONDS
  fi
}

# Takes the drawn line away, so that another one can stand there.
progress_clear() {
  [[ -z $progress_text ]] || printf '\r\e[K' >&"$progress_fd"
  progress_text=''
}

# time_left DONE ALL SECONDS: ", about 3 min left", if that much is done of all after so many seconds; else nothing.
time_left() {
  local left
  (($3 >= ESTIMATE_SECONDS && $1 > 0)) || return 0
  left=$(($3 * ($2 - $1) / $1))
  if ((left < 60)); then
    printf ', less than 1 min left'
  else
    printf ', about %d min left' "$(((left + 30) / 60))"
  fi
}

# each_line FUNCTION IDLE: calls FUNCTION LINE for every line of the input, and IDLE once a second without any.
each_line() {
  local line='' part status
  while true; do
    part='' status=0
    IFS= read -r -t 1 part || status=$?
    line+=$part
    if ((status == 0)); then
      "$1" "$line"
      line=''
    elif ((status > 128)); then
      "$2"
    else
      [[ -z $line ]] || "$1" "$line"
      return 0
    fi
  done
}
