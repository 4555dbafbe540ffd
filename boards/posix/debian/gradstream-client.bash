# bash completion of gradstream-client(1): options, their words and files.
_gradstream_client() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=''
  COMPREPLY=()
  case $previous in
    --identity | --certificate | --key | --server-ca | --claim | --data | --network | --score | --record)
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    --state)
      mapfile -t COMPREPLY < <(compgen -W none -- "$current"; compgen -d -- "$current")
      return
      ;;
    --key-exchange) words='psk_dhe_ke psk_ke' ;;
    --log-time) words='auto on off' ;;
    --power) words='mains battery' ;;
    --sample-count) words='bucket exact none' ;;
    --delimiter) words='auto comma semicolon tab blank' ;;
    --decimal) words='auto point comma' ;;
    --problem)
      words='any kpca brockett spd_mean multitask hyperbolic least_squares completion logistic perceptron lenet
        network'
      ;;
    --server | --server-name | --name | --label | --skip-rows | --ridge | --widths | --run | --retry-ms | --step-delay-ms | --arena-kib | --threshold | --batch-size-min | --local-step-count-min | --scalars-per-sample-max | --sums-samples-min | --trials-samples-min) ;;
    *)
      words='--server --identity --certificate --key --server-ca --server-name --claim --claim-unproven --name --data --label
        --delimiter --decimal --skip-rows --network --state --record --key-exchange --problem --ridge --widths --run --retry-ms --step-delay-ms --arena-kib --power --log-time --no-sums --batch-size-min --local-step-count-min --scalars-per-sample-max --sums-samples-min
        --trials-samples-min --no-tangents --send-losses --no-evaluation --sample-count --no-floors --score --threshold --once
        --until-finished --version --help'
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _gradstream_client gradstream-client
