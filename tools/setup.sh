#!/bin/bash
# Makes a bare Debian 12 or 13 machine able to build, test and run gradstream; does nothing when all is there.
#
# Usage: ./run setup                      everything, for ./run test and all other verbs
#        ./run setup VERB [ARGUMENT...]   what `./run VERB ARGUMENT...` needs: it brings that by itself, too
#
# It brings:
# 1. Debian packages of tools/packages.txt, in one apt-get install. For `./run demo --board none` they are 119, with
#    127 MB to fetch; for everything 831, with 1,321 MB (Debian 12). It names the true sizes before it begins.
# 2. Source packages in third_party/: Mbed TLS, libsodium and nanopb; for boards lwIP; for the tests promtool of
#    Prometheus.
# 3. With npm, where the verb needs it: uPlot, the charts of the server's web page, and rp2040js, the emulator of the
#    RP2040.
# 4. For `./run bench server --durable-peers`: NATS's server, from its Go module, where there is Go 1.26 or newer.
#
# A set-up that was cut goes on where it stopped. GS_DEBIAN_MIRROR=ADDRESS names a Debian mirror for the sources, where
# apt's own lists have none.

# Notes for who changes this:
# - tools/setup.sh --no-result VERB...: as ./run calls it. Exit status 0: everything is in place.
# - bookworm's Mbed TLS is 2.28 and its nanopb package holds no sources, hence the source packages. apt fetches them
#   from the mirrors that this machine uses already. A folder of third_party/ appears in one rename, with its own stamp.
# - promtool alone of prometheus' package: it checks alert rules and metrics, and needs no service.
# - Without what npm brings, the page has tables only, and the tests of both are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8
. tools/progress.sh

# PACKAGE/SUITE: the newest version in that suite, so that Debian's point releases do not break set-up.
# PACKAGE/SUITE/FILE: of a package's binary that one file, three folders deep. Installed, prometheus is 96 MB and a
# running service.
readonly TOOLS_SOURCES=(mbedtls/trixie nanopb/bookworm libsodium/bookworm) BOARD_SOURCES=(lwip/trixie)
readonly TEST_SOURCES=(prometheus/bookworm/usr/bin/promtool)
# Debian's nats-server is older than `sync_interval: always`, and its Go may be older than the module's.
readonly NATS=github.com/nats-io/nats-server/v2@v2.15.2 NATS_GO=1.26
readonly GO_PROGRAMS=(go /usr/local/go/bin/go) NATS_SECONDS_MAX=1800
readonly KEYRINGS=(/usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/raspbian-archive-keyring.gpg)
readonly OS_RELEASE=/etc/os-release
readonly STAMP=.fetched-by-setup
readonly LOG=third_party/setup.log
readonly ARCHIVES=/var/cache/apt/archives SYSTEM=/usr  # where apt puts what it fetches, and what it installs
readonly SPARE_MB=150  # besides what apt names: its lists, the unpacked sources, logs
readonly FULL_MB=5     # a disk with less is called full
readonly APT=(apt-get -o DPkg::Lock::Timeout=400 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
readonly INSTALL=(install -y --fix-broken --no-install-recommends)
readonly ALL_SETS="python tools host numpy board riscv page rp2040 cross picture peers clang unit engine test"

say() {
  progress_clear
  printf 'set-up: %s\n' "$*"
  progress_last=$SECONDS
}
die() {
  progress_clear
  printf 'set-up: error: %s\n' "$1" >&2
  shift
  if (($#)); then printf '        %s\n' "$@" >&2; fi
  exit 1
}

show_log_end() {
  progress_clear
  sed 's/^/    | /' < <(tail -n 12 "$LOG") >&2
}

# ---- What is needed ----

# Whether a demo or an example has its emulated board.
has_board() { [[ " $* " != *" --board none "* && " $* " != *" --board=none "* ]]; }

# Whether a RISC-V is named: as a board, or as the preset of one.
has_riscv() { [[ " $* " == *[\ =]riscv* ]]; }

# needs_of VERB [ARGUMENT...]: its sets of tools/packages.txt. What is not known takes more rather than less.
needs_of() {
  local verb=$1 native='python tools host' board='' page=''
  shift
  case $verb in
    demo)
      if has_riscv "$@"; then board=' riscv'; elif has_board "$@"; then board=' board'; fi
      if [[ " $* " == *" --stay "* ]]; then page=' page'; fi
      echo "$native numpy$board$page"
      ;;
    simulate) echo "$native" ;;
    provision) echo "$native board numpy" ;;
    monitor) echo python ;;
    flash) echo "$native board numpy" ;;
    footprint) echo "$native board riscv numpy rp2040" ;;
    emulate)
      if has_riscv "$@"; then
        echo "python tools riscv"
      else
        echo "python tools board$([[ ${1:-} != rp2040 ]] || echo ' rp2040')"
      fi
      ;;
    digest) echo "$native board riscv cross clang" ;;
    report)
      if [[ ${1:-} != make || ${2:-} == posix ]]; then
        echo "$native"
      elif has_riscv "$@"; then
        echo "$native riscv"
      else
        echo "$native board$([[ ${2:-} != rp2040 ]] || echo ' rp2040')"
      fi
      ;;
    experiment) echo "$native numpy picture" ;;
    fuzz) echo "$native clang unit" ;;
    example) if [[ ${1:-} == tables ]]; then echo "$native numpy"; else echo "$native numpy board"; fi ;;
    package)
      case ${1:-} in
        sign | verify)
          echo "python numpy sign"
          return
          ;;
      esac
      [[ $# -gt 0 && " $* " != *" server "* && " $* " != *" image "* && " $* " != *" python "* ]] || page=' page'
      if [[ $# == 0 || " $* " == *" arm"* ]]; then board=' cross'; fi
      if [[ " $* " == *" source "* ]]; then board+=' board riscv clang source'; fi
      [[ " $* " != *" engine "* ]] || board+=' engine'
      echo "$native numpy$page$board$([[ " $* " != *" image "* ]] || echo ' image')"
      ;;
    bench)
      case ${1:-} in
        manifold) echo "$native peers" ;;
        server) echo "$native numpy$([[ " $* " != *" --durable-peers "* ]] || echo ' durable')" ;;
        cluster | engine) echo "$native engine" ;;
        async | difference | parameters | round) echo "$native numpy" ;;
        powercut) echo "$native numpy $(has_riscv "$@" && echo riscv || echo 'board rp2040')" ;;
        *) echo "$native numpy board rp2040" ;;
      esac
      ;;
    build)
      case ${1:-} in
        asan | fuzz) echo "$native unit clang" ;;
        rpi-*) echo "$native unit cross" ;;
        dev | quick | tsan) echo "$native unit" ;;
        riscv-*) echo "python tools riscv" ;;
        *) echo "python tools board" ;;
      esac
      ;;
    test) if [[ ${1:-} == quick ]]; then echo "$native unit"; else echo "$ALL_SETS"; fi ;;
    *) echo "$ALL_SETS" ;;
  esac
}

# has_set NAME: whether it is among those that are needed.
has_set() { [[ " $sets " == *" $1 "* ]]; }

# The packages of the sets, A|B for one of both.
wanted_packages() {
  local set=none line
  while read -r line; do
    line=${line%%#*}
    line=${line//[[:space:]]/}
    case $line in
      '') ;;
      \[*\]) set=${line:1:-1} ;;
      *) if has_set "$set"; then printf '%s\n' "$line"; fi ;;
    esac
  done <tools/packages.txt | sort -u
}

wanted_sources() {
  if has_set tools; then printf '%s\n' "${TOOLS_SOURCES[@]}"; fi
  if has_set board; then printf '%s\n' "${BOARD_SOURCES[@]}"; fi
  if has_set test; then printf '%s\n' "${TEST_SOURCES[@]}"; fi
}

# What npm brings: NAME|what is missing without it. Versions and checksums stand in tools/NAME/package-lock.json.
wanted_node_folders() {
  if has_set rp2040; then echo "rp2040js|the RP2040 is not emulated"; fi
  if has_set page; then echo "page|the server's web page has no charts"; fi
}

# Node of another origin brings npm, and Debian's packages conflict with it: the commands are enough.
is_there_otherwise() {
  case $1 in
    nodejs) command -v node >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    *) false ;;
  esac
}

missing_packages() {
  local wanted names entry name status
  local -A installed=()
  mapfile -t wanted < <(wanted_packages)
  names=("${wanted[@]//|/ }")
  # shellcheck disable=SC2068  # an entry is one name or several
  while read -r name status; do
    [[ $status != installed ]] || installed[$name]=yes
  done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' ${names[@]} 2>/dev/null)
  for entry in "${wanted[@]}"; do
    for name in ${entry//|/ }; do
      if [[ -n ${installed[$name]:-} ]] || is_there_otherwise "$name"; then continue 2; fi
    done
    printf '%s\n' "$entry"
  done
}

source_is_current() { [[ -f third_party/${1%%/*}/$STAMP && $(<"third_party/${1%%/*}/$STAMP") == "$1" ]]; }

stale_sources() {
  local source
  while read -r source; do
    source_is_current "$source" || printf '%s\n' "$source"
  done < <(wanted_sources)
}

node_folder_is_current() {
  ! command -v npm >/dev/null || cmp -s "tools/${1%%|*}/package-lock.json" "third_party/${1%%|*}/$STAMP"
}

stale_node_folders() {
  local folder
  while read -r folder; do
    node_folder_is_current "$folder" || printf '%s\n' "$folder"
  done < <(wanted_node_folders)
}

# The first Go of this machine that is new enough for NATS; status 1 without one.
find_go() {
  local go version
  for go in "${GO_PROGRAMS[@]}"; do
    version=$(GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null) || continue
    if printf '%s\n' "$NATS_GO" "${version#go}" | sort -CV; then
      printf '%s\n' "$go"
      return
    fi
  done
  return 1
}

# Whether NATS is wanted, can be built, and is not there. Without a Go the benchmark says what is absent.
nats_is_stale() {
  has_set durable && ! grep -Fxqs -- "$NATS" "third_party/nats/$STAMP" && find_go >/dev/null
}

# ---- Progress, and what went wrong ----

log_line() { printf '%s\n' "$1" >>"$LOG"; }

show_step() { progress "$step, $((SECONDS - step_begun)) s"; }

# watch STEP: takes a command's output into the log, and says meanwhile what is done.
watch() {
  step=$1 step_begun=$SECONDS
  each_line log_line show_step
}

show_packages() {
  case $phase in
    '') progress "packages: apt-get begins" ;;
    dlstatus) progress "packages: $percent % of $fetch_mb MB fetched$(
      time_left "$percent" 100 "$((SECONDS - phase_begun))")" ;;
    *) progress "packages: $percent % installed$(time_left "$percent" 100 "$((SECONDS - phase_begun))")" ;;
  esac
}

# A line of apt's Status-Fd, KIND:NAME:PERCENT:TEXT. They are many; one a second is enough.
take_apt_line() {
  if [[ $1 =~ ^(dlstatus|pmstatus):[^:]*(:[a-z0-9]+)?:([0-9]+)[.0-9]*: ]]; then
    [[ $phase == "${BASH_REMATCH[1]}" ]] || phase=${BASH_REMATCH[1]} phase_begun=$SECONDS
    percent=${BASH_REMATCH[3]}
    if ((SECONDS != shown_at)); then
      shown_at=$SECONDS
      show_packages
    fi
  else
    log_line "$1"
  fi
}

# As root; apt's own output goes into the log. apt closes its Status-Fd for dpkg, so it must be none of the three that
# dpkg needs; and sudo closes all others, so it is made behind sudo.
apt_install() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive bash -c 'exec "${@:2}" 3>&1 >>"$1" 2>&1 </dev/null' apt "$LOG" \
    "${APT[@]}" -o APT::Status-Fd=3 "${INSTALL[@]}" "$@"
}

# free_mb FOLDER
free_mb() { df --output=avail -B1000000 "$1" 2>/dev/null | tail -n 1 | tr -d ' '; }

# Ends with the remedy if the disk is full, as the log or a folder says.
check_full_disk() {
  local folder free
  for folder in "$ARCHIVES" "$SYSTEM" .; do
    free=$(free_mb "$folder") || continue
    if [[ -n $free ]] && { ((free < FULL_MB)) ||
      { [[ $folder == . ]] && grep -qisE 'no space left on device|enough free space' "$LOG"; }; }; then
      die "the disk is full: $1 (free: $free MB for $(realpath "$folder"))." \
        "Free space, at least $((fetch_mb + disk_mb + SPARE_MB)) MB in all, then run ./run $again again: it goes on" \
        "where it stopped. What apt has fetched already stays in $ARCHIVES; 'apt-get clean' takes it away."
    fi
  done
}

check_system() {
  local name=unknown version=''
  if [[ -r $OS_RELEASE ]]; then
    # shellcheck disable=SC1090
    read -r name version < <(. "$OS_RELEASE" && printf '%s %s\n' "${ID:-unknown}" "${VERSION_ID:-}")
  fi
  case "$name $version" in
    "debian 12" | "debian 13" | "raspbian 12" | "raspbian 13") ;;
    "ubuntu "*)
      say "warning: this is Ubuntu $version, on which set-up is untried: the packages are named as in Debian"
      ;;
    *)
      die "this is $name${version:+ $version}, and set-up knows the packages of Debian 12 and 13, of raspbian, and by" \
        "trial those of Ubuntu. Use a machine, a container or a folder of debootstrap with one of them."
      ;;
  esac
}

# ---- Packages ----

# plan_of PACKAGE...: "COUNT MB MB", what apt would install, fetch and fill, by its own figures.
plan_of() {
  "${APT[@]}" "${INSTALL[@]}" --print-uris "$@" 2>&1 | tee -a "$LOG" | awk '
    function mb(value, unit) { return value * (unit == "GB" ? 1e3 : unit == "MB" ? 1 : unit == "kB" ? 1e-3 : 1e-6) }
    / newly installed/ { count = $3 }
    /^Need to get / { sub("/", " "); fetch = mb($4, $5) }
    / additional disk space / { disk = mb($4, $5) }
    END { printf "%d %d %d\n", count, fetch + 0.5, disk + 0.5 }'
}

# Before anything is fetched: whether there is room for it.
check_room() {
  local folder free need
  for folder in "$ARCHIVES" "$SYSTEM"; do
    free=$(free_mb "$folder") || continue
    need=$((fetch_mb + SPARE_MB))
    if [[ $folder == "$SYSTEM" ]]; then need=$((disk_mb + SPARE_MB)); fi
    if [[ $(stat -c %d "$ARCHIVES" 2>/dev/null) == "$(stat -c %d "$SYSTEM")" ]]; then
      need=$((fetch_mb + disk_mb + SPARE_MB))
    fi
    if [[ -n $free ]] && ((free < need)); then
      die "the disk of $folder has $free MB free, and set-up needs $need MB: $fetch_mb MB to fetch, $disk_mb MB for" \
        "what is installed, $SPARE_MB MB to work. Free $((need - free)) MB, then run ./run $again again."
    fi
  done
}

# What dpkg was cut in, it must finish first.
finish_cut_installation() {
  [[ -n $(dpkg --audit 2>/dev/null) || -n $(compgen -G '/var/lib/dpkg/updates/[0-9]*') ]] || return 0
  say "an installation was cut before; finishing what it began"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive dpkg --configure -a 2>&1 | watch "finishing an installation" ||
    say "warning: dpkg could not finish all of it; apt-get goes on"
}

first_known() {
  local name
  for name in ${1//|/ }; do
    if apt-cache show "$name" >/dev/null 2>&1; then break; fi
  done
  printf '%s\n' "$name"
}

install_packages() {
  local missing=("$@") root=() count entry phase='' phase_begun=$SECONDS percent=0 shown_at=0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "packages are missing, and there is neither root nor sudo. As root, run:" \
      "apt-get update && apt-get install -y --no-install-recommends ${missing[*]%%|*}"
    root=(sudo)
  fi
  finish_cut_installation
  say "reading the lists of packages"
  # A list of another vendor that cannot be reached need not matter: the installation decides.
  "${root[@]}" "${APT[@]}" update 2>&1 | watch "reading the lists of packages" ||
    say "warning: apt-get update reported a failure; going on"
  mapfile -t missing < <(for entry in "${missing[@]}"; do first_known "$entry"; done)
  read -r count fetch_mb disk_mb < <(plan_of "${missing[@]}")
  check_room
  say "installing $count packages: $fetch_mb MB to fetch, $disk_mb MB on the disk (output in $LOG)"
  if ! apt_install "${missing[@]}" | each_line take_apt_line show_packages; then
    show_log_end
    check_full_disk "apt-get could not install ${missing[*]}"
    die "apt-get could not install: ${missing[*]}" \
      "Check the network and the mirrors in /etc/apt/sources.list and /etc/apt/sources.list.d (component 'main' is" \
      "enough), then run ./run $again again: it goes on where it stopped. Full output: $LOG"
  fi
  progress_clear
}

# ---- Sources ----

# The mirrors of Debian's own lists, those that apt knows to be Debian's first. Whatever the form of the lists is, apt
# has parsed it. A wrong candidate does no harm: its signature would not be Debian's.
debian_mirrors() {
  if [[ -n ${GS_DEBIAN_MIRROR:-} ]]; then
    printf '%s\n' "$GS_DEBIAN_MIRROR"
    return
  fi
  apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
    awk -F'|' '$4 == "main" && $2 !~ /^cdrom:/ && $3 ~ /^(bookworm|trixie|stable|oldstable)$/ {
      print ($1 == "Debian" || $1 == "Raspbian" ? 0 : 1), $2 }' | sort -u | cut -d' ' -f2
}

# Into a folder below the current one, with fetch_sources()' options: the sources of PACKAGE/SUITE, or FILE alone of
# its binary.
bring() {
  if [[ -z $2 ]]; then
    "${APT[@]}" "${options[@]}" source "$1"
    return
  fi
  local folder
  "${APT[@]}" "${options[@]}" download "$1" && folder=$(basename ./*.deb .deb) && mkdir "$folder" &&
    dpkg-deb --fsys-tarfile "$folder.deb" | tar -x -C "$folder" --strip-components=3 "./$2"
}

# write_lists URI SOURCE...: apt's list for these sources from one mirror.
write_lists() {
  local uri=$1 source name suite file kind keyring signers=''
  shift
  for keyring in "${KEYRINGS[@]}"; do
    if [[ -r $keyring ]]; then signers+=,$keyring; fi
  done
  [[ -n $signers ]] || die "${KEYRINGS[0]} is missing." \
    "Install the package debian-archive-keyring, then run ./run $again again."
  for source in "$@"; do
    IFS=/ read -r name suite file <<<"$source"
    if [[ -n $file ]]; then kind=deb; else kind=deb-src; fi
    printf '%s [signed-by=%s] %s %s main\n' "$kind" "${signers:1}" "$uri" "$suite"
  done | sort -u >"$work/sources.list"
}

# Of fetch_sources(): what was unpacked gets its stamp and its place. It is called where set -e does not hold.
keep_source() {
  if [[ $name == nanopb ]]; then
    # The generator would make this file at its first use, in every build tree at once.
    protoc -I "$unpacked/generator/proto" --python_out="$unpacked/generator/proto" nanopb.proto || return 1
  fi
  # An archive's files are older than what was built of those before, and nothing would be built anew.
  find "$unpacked" -type f -exec touch {} + || return 1
  printf '%s\n' "$source" >"$unpacked/$STAMP" && rm -rf "third_party/$name" && mv "$unpacked" "third_party/$name"
}

# Private lists and caches, so that the system's apt stays as it is and no root is needed.
fetch_sources() {
  local work=$PWD/third_party/.fetch uri name suite file source unpacked options mirror_found=''
  say "fetching sources: $*"
  rm -rf "$work"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/unpack"
  options=(-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User= -o Acquire::Languages=none)
  for uri in $(debian_mirrors); do
    write_lists "$uri" "$@"
    if "${APT[@]}" "${options[@]}" -o APT::Update::Error-Mode=any update 2>&1 |
      watch "reading the lists of sources"; then
      mirror_found=$uri
      break
    fi
    say "warning: no package lists from $uri"
  done
  if [[ -z $mirror_found ]]; then
    show_log_end
    check_full_disk "the lists of sources could not be written"
    die "no Debian mirror of this machine's apt lists gave the lists of packages for: $*" \
      "Check the network, and that /etc/apt/sources.list or /etc/apt/sources.list.d names a full Debian mirror for" \
      "bookworm main (its trixie suite is read too). Or name one: GS_DEBIAN_MIRROR=ADDRESS ./run $again, with an" \
      "address of Debian's list of mirrors. Full output: $LOG"
  fi
  for source in "$@"; do
    IFS=/ read -r name suite file <<<"$source"
    rm -rf "$work/unpack"
    mkdir "$work/unpack"
    if ! (cd "$work/unpack" && bring "$name/$suite" "$file") 2>&1 | watch "fetching $name"; then
      show_log_end
      check_full_disk "$source could not be fetched"
      die "$source could not be fetched." "Check the network, then run ./run $again again. Full output: $LOG"
    fi
    unpacked=$(find "$work/unpack" -mindepth 1 -maxdepth 1 -type d)
    if ! keep_source 2>>"$LOG"; then
      show_log_end
      check_full_disk "$source could not be put into third_party"
      die "$source could not be put into third_party." "Full output: $LOG"
    fi
    say "third_party/$name is $(basename "$unpacked")"
  done
  rm -rf "$work"
}

# A failure is no reason to stop.
fetch_node_folder() {
  local name=${1%%|*} folder=third_party/${1%%|*}
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "tools/$name/package.json" "tools/$name/package-lock.json" "$folder"
  say "fetching with npm: $name"
  npm --prefix "$folder" ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 2>&1 | watch "fetching $name" ||
    {
      check_full_disk "npm could not fetch $name"
      say "warning: npm could not fetch $name: ${1#*|} (remove $folder to try again)"
    }
  cp "tools/$name/package-lock.json" "$folder/$STAMP"
}

# A failure is no reason to stop: it is tried again the next time, and meanwhile the benchmark does without.
build_nats() {
  local folder=$PWD/third_party/nats
  rm -rf "$folder"
  mkdir -p "$folder"
  say "building NATS's server from its Go module"
  if GOBIN=$folder GOTOOLCHAIN=local GOFLAGS='' CGO_ENABLED=0 timeout "$NATS_SECONDS_MAX" "$(find_go)" install "$NATS" \
    2>&1 </dev/null | watch "building NATS's server"; then
    printf '%s\n' "$NATS" >"$folder/$STAMP"
  else
    check_full_disk "NATS's server could not be built"
    say "warning: NATS's server could not be built: $(tail -n 1 "$LOG") (full output: $LOG)"
  fi
}

# ---- All of it ----

# In one process of the tree at a time.
bring_all() {
  mkdir -p third_party 2>/dev/null && [[ -w third_party ]] && : >>"$LOG" ||
    check_full_disk "third_party could not be made"
  [[ -w third_party ]] || die "$PWD is not writable for $(id -un)." \
    "Use a clone of your own, or run ./run $again as its owner."
  exec 9>third_party/.lock
  if ! flock -n 9; then
    say "waiting for another set-up in this tree"
    step="waiting for another set-up" step_begun=$SECONDS
    until flock -w 1 9; do show_step; done
  fi
  mapfile -t missing < <(missing_packages)
  mapfile -t stale < <(stale_sources)
  : >"$LOG"
  if ((${#missing[@]})); then
    check_system
    install_packages "${missing[@]}" 9>&-
  fi
  if ((${#stale[@]})); then fetch_sources "${stale[@]}" 9>&-; fi
  while read -r folder; do
    fetch_node_folder "$folder" </dev/null 9>&-
  done < <(stale_node_folders)
  if nats_is_stale; then build_nats 9>&-; fi
}

main() {
  local result=yes missing stale folder begin=$SECONDS fetched=0 fetch_mb=0 disk_mb=0
  if [[ ${1:-} == --no-result ]]; then
    result=''
    shift
  fi
  sets=$(needs_of "${@:-all}")
  if [[ -n $result ]]; then again="setup${*:+ $*}"; else again=$*; fi
  progress_begin set-up 1
  mapfile -t missing < <(missing_packages)
  mapfile -t stale < <(stale_sources)
  if ((${#missing[@]} + ${#stale[@]})) || [[ -n $(stale_node_folders) ]] || nats_is_stale; then
    trap 'say "cut; ./run $again goes on where it stopped"; exit 130' INT
    bring_all
    fetched=${#stale[@]}
  fi
  if [[ -n $result ]]; then
    printf 'result: packages=%d installed=%d sources=%d fetched=%d seconds=%d\n' "$(wanted_packages | wc -l)" \
      "${#missing[@]}" "$(wanted_sources | wc -l)" "$fetched" "$((SECONDS - begin))"
  fi
}

main "$@"
