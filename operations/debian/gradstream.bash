# bash completion of gradstream(1): verbs, options and files.
_gradstream() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]:-} words=''
  local common='--config --set --format --help'
  COMPREPLY=()
  case $previous in
    --config | --out | --identity | --certificate | --key | --server-ca | --head | --public | --check-config | --data | --from | --to | import | backup | restore)
      if [[ $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
      fi
      ;;
    --problem)
      mapfile -t COMPREPLY < <(compgen -W 'kpca least_squares logistic' -- "$current")
      return
      ;;
    --delimiter)
      mapfile -t COMPREPLY < <(compgen -W 'auto comma semicolon tab blank' -- "$current")
      return
      ;;
    --decimal)
      mapfile -t COMPREPLY < <(compgen -W 'auto point comma' -- "$current")
      return
      ;;
    --header)
      mapfile -t COMPREPLY < <(compgen -W 'auto yes no' -- "$current")
      return
      ;;
    --out-folder)
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return
      ;;
    --format)
      [[ $verb == model ]] && words='npy csv npz' || words='text json'
      [[ $verb == run && ${COMP_WORDS[2]:-} == export ]] && words='npy csv'
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
      return
      ;;
  esac
  if ((COMP_CWORD == 1)); then
    words='serve device claim backup restore doctor explain run model network data engine status history --help --version'
  elif ((COMP_CWORD == 2)) && [[ $verb == device ]]; then
    words='add import rotate list show enable disable revoke'
  elif ((COMP_CWORD == 2)) && [[ $verb == claim ]]; then
    words='add list end'
  elif ((COMP_CWORD == 2)) && [[ $verb == run ]]; then
    words='start suggest keys list pause resume stop export head head-key verify forget'
  elif ((COMP_CWORD == 2)) && [[ $verb == model ]]; then
    words='export'
  elif ((COMP_CWORD == 2)) && [[ $verb == network ]]; then
    words='show'
  elif ((COMP_CWORD == 2)) && [[ $verb == data ]]; then
    words='pack show'
  elif ((COMP_CWORD == 2)) && [[ $verb == engine ]]; then
    words='init status doctor migrate import export'
  elif [[ $current == -* ]]; then
    case "$verb ${COMP_WORDS[2]:-}" in
      serve\ *) words='--config --set --help --check-config --print-config --create' ;;
      device\ add) words="$common --out --pending" ;;
      device\ import) words="$common --out-folder --pending" ;;
      device\ rotate) words="$common --out --by-device --window-s" ;;
      claim\ add) words="$common --out --count-max --window-s --pending" ;;
      run\ suggest)
        words='--data --problem --cols --devices --label --delimiter --header --decimal --skip-rows --help'
        ;;
      engine\ import) words="$common --from --run" ;;
      engine\ export) words="$common --to --close" ;;
      explain\ *) words='--markdown --format --help' ;;
      run\ keys) words='--markdown --format --help' ;;
      network\ *) words='--batch --samples --format --help' ;;
      data\ pack)
        words='--label --delimiter --header --decimal --skip-rows --format --out-folder --map-labels --classes --bytes --scale --offset --error
          --force --help'
        ;;
      data\ show) words='--label --delimiter --header --decimal --skip-rows --format --help' ;;
      run\ export) words='--config --set --help --run --version --format --out --check' ;;
      run\ start) words="$common --force" ;;
      run\ head) words='--config --set --help --run --key' ;;
      run\ head-key) words='--help' ;;
      run\ forget) words="$common --run --device" ;;
      run\ verify) words="$common --run --head --public" ;;
      run\ pause | run\ resume | run\ stop) words="$common --run" ;;
      status\ *) words="$common --run --alive" ;;
      history\ *) words='--config --set --help --run' ;;
      model\ *) words='--config --set --help --run --version --format --out --average' ;;
      restore\ *) words="$common --replace" ;;
      doctor\ *) words='--identity --certificate --key --server-ca --server-name --psk-ke --deadline-ms --format --help' ;;
      *) words=$common ;;
    esac
  fi
  if [[ $verb == data && -z $words ]]; then  # tables and shards
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _gradstream gradstream
