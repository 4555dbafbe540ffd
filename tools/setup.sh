#!/bin/bash
# Makes a bare Debian 12 machine able to build, test and run gradstream; does nothing when all is there.
#
# 1. Debian packages of tools/packages.txt, in one apt-get install.
# 2. Source packages in third_party/<name>, fetched with apt from the Debian mirrors that this machine uses already.
#    bookworm's Mbed TLS is 2.28 and its nanopb package holds no sources, hence the source packages. A folder appears in
#    one rename and carries its own stamp, so that an interrupted set-up continues where it stopped.
#    Of prometheus' package, fetched likewise, promtool alone: it checks alert rules and metrics, and needs no service.
# 3. With npm: uPlot, the chart library in the server's web page, and what tests that page in a browser; rp2040js, the
#    emulator of the RP2040. Without them the page has tables only, and their tests are left out.
#
# Usage: tools/setup.sh [--no-result]        exit status 0: everything is in place
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8

# PACKAGE/SUITE: the newest version in that suite, so that Debian's point releases do not break set-up.
readonly SOURCES=(mbedtls/trixie lwip/trixie nanopb/bookworm)
# PACKAGE/SUITE/FILE: of a package's binary that one file, three folders deep. Installed, prometheus is 96 MB and a
# running service.
readonly PROGRAMS=(prometheus/bookworm/usr/bin/promtool)
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
readonly STAMP=.fetched-by-setup
readonly LOG=third_party/setup.log
readonly APT=(apt-get -o DPkg::Lock::Timeout=400 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)

say() { printf 'set-up: %s\n' "$*"; }
die() {
  printf 'set-up: error: %s\n' "$1" >&2
  shift
  if (($#)); then printf '        %s\n' "$@" >&2; fi
  exit 1
}

show_log_end() { sed 's/^/    | /' < <(tail -n 12 "$LOG") >&2; }

wanted_packages() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' -e 's/[[:space:]]//g' tools/packages.txt; }

# Node of another origin brings npm, and Debian's packages conflict with it: the commands are enough.
is_there_otherwise() {
  case $1 in
    nodejs) command -v node >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    *) false ;;
  esac
}

missing_packages() {
  local wanted name
  mapfile -t wanted < <(wanted_packages)
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
    <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
      awk '$2 == "installed" { print $1 }' | sort -u) |
    while read -r name; do
      is_there_otherwise "$name" || printf '%s\n' "$name"
    done
}

source_is_current() { [[ -f third_party/${1%%/*}/$STAMP && $(<"third_party/${1%%/*}/$STAMP") == "$1" ]]; }

stale_sources() {
  local source
  for source in "${SOURCES[@]}" "${PROGRAMS[@]}"; do
    source_is_current "$source" || printf '%s\n' "$source"
  done
}

require_debian_12() {
  local name=unknown
  if [[ -r /etc/os-release ]]; then
    name=$(. /etc/os-release && printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}")
  fi
  [[ $name == "debian 12" ]] || die "this is $name, and set-up knows the packages of Debian 12 only." \
    "Install what tools/packages.txt names by the means of your system, or use a Debian 12 container."
}

install_packages() {
  local missing=("$@") root=()
  require_debian_12
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "packages are missing, and there is neither root nor sudo. As root, run:" \
      "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    root=(sudo)
  fi
  say "installing ${#missing[@]} packages and what they need (up to 700 MB to download; output in $LOG)"
  # A list of another vendor that cannot be reached need not matter: the installation decides.
  "${root[@]}" "${APT[@]}" update >>"$LOG" 2>&1 || say "warning: apt-get update reported a failure; going on"
  if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive "${APT[@]}" install -y --no-install-recommends \
    "${missing[@]}" >>"$LOG" 2>&1; then
    show_log_end
    die "apt-get could not install: ${missing[*]}" \
      "Check the network and the mirrors in /etc/apt/sources.list and /etc/apt/sources.list.d (component 'main' is" \
      "enough), then run ./run setup again. Full output: $LOG"
  fi
}

# The mirrors of Debian's own bookworm lists, those that apt knows to be Debian's first. Whatever the form of the lists
# is, apt has parsed it. A wrong candidate does no harm: its signature would not be Debian's.
debian_mirrors() {
  apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
    awk -F'|' '$4 == "main" && $2 !~ /^cdrom:/ && ($3 == "bookworm" || $3 == "stable" || $3 == "oldstable") {
      print ($1 == "Debian" ? 0 : 1), $2 }' | sort -u | cut -d' ' -f2
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

# Private lists and caches, so that the system's apt stays as it is and no root is needed.
fetch_sources() {
  local work=$PWD/third_party/.fetch uri kind name source suite file unpacked options mirror_found=''
  say "fetching sources: $*"
  [[ -r $KEYRING ]] || die "$KEYRING is missing." \
    "Install the package debian-archive-keyring, then run ./run setup again."
  rm -rf "$work"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/unpack"
  options=(-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User= -o Acquire::Languages=none)
  for uri in $(debian_mirrors); do
    for source in "$@"; do
      IFS=/ read -r name suite file <<<"$source"
      [[ -n $file ]] && kind=deb || kind=deb-src
      printf '%s [signed-by=%s] %s %s main\n' "$kind" "$KEYRING" "$uri" "$suite"
    done | sort -u >"$work/sources.list"
    if "${APT[@]}" "${options[@]}" -o APT::Update::Error-Mode=any update >>"$LOG" 2>&1; then
      mirror_found=$uri
      break
    fi
    say "warning: no package lists from $uri"
  done
  if [[ -z $mirror_found ]]; then
    show_log_end
    die "no Debian mirror of this machine's apt lists gave the lists of packages for: $*" \
      "Check the network, and that /etc/apt/sources.list or /etc/apt/sources.list.d names a full Debian mirror for" \
      "bookworm main (its trixie suite is read too), then run ./run setup again. Full output: $LOG"
  fi
  for source in "$@"; do
    IFS=/ read -r name suite file <<<"$source"
    rm -rf "$work/unpack"
    mkdir "$work/unpack"
    if ! (cd "$work/unpack" && bring "$name/$suite" "$file") >>"$LOG" 2>&1; then
      show_log_end
      die "$source could not be fetched." "Check the network, then run ./run setup again. Full output: $LOG"
    fi
    unpacked=$(find "$work/unpack" -mindepth 1 -maxdepth 1 -type d)
    if [[ $name == nanopb ]]; then
      # The generator would make this file at its first use, in every build tree at once.
      protoc -I "$unpacked/generator/proto" --python_out="$unpacked/generator/proto" nanopb.proto
    fi
    printf '%s\n' "$source" >"$unpacked/$STAMP"
    rm -rf "third_party/$name"
    mv "$unpacked" "third_party/$name"
    say "third_party/$name is $(basename "$unpacked")"
  done
  rm -rf "$work"
}

# What npm brings: NAME|what is missing without it. Versions and checksums stand in tools/NAME/package-lock.json.
readonly NODE_FOLDERS=("rp2040js|the RP2040 is not emulated" "page|the server's web page has no charts")

node_folder_is_current() {
  ! command -v npm >/dev/null || cmp -s "tools/${1%%|*}/package-lock.json" "third_party/${1%%|*}/$STAMP"
}

stale_node_folders() {
  local folder
  for folder in "${NODE_FOLDERS[@]}"; do
    node_folder_is_current "$folder" || printf '%s\n' "$folder"
  done
}

# A failure is no reason to stop.
fetch_node_folder() {
  local name=${1%%|*} folder=third_party/${1%%|*}
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "tools/$name/package.json" "tools/$name/package-lock.json" "$folder"
  say "fetching with npm: $name"
  npm --prefix "$folder" ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 >>"$LOG" 2>&1 ||
    say "warning: npm could not fetch $name: ${1#*|} (remove $folder to try again)"
  cp "tools/$name/package-lock.json" "$folder/$STAMP"
}

main() {
  local result=yes missing stale folder begin=$SECONDS fetched=0
  case ${1:-} in
    --no-result) result='' ;;
    '') ;;
    *) die "unknown option $1 (known: --no-result)" ;;
  esac
  mapfile -t missing < <(missing_packages)
  mapfile -t stale < <(stale_sources)
  if ((${#missing[@]} + ${#stale[@]})) || [[ -n $(stale_node_folders) ]]; then
    mkdir -p third_party 2>/dev/null && [[ -w third_party ]] ||
      die "$PWD is not writable for $(id -un)." "Use a clone of your own, or run ./run setup as its owner."
    exec 9>third_party/.lock
    flock -n 9 || { say "waiting for another set-up in this tree"; flock 9; }
    mapfile -t missing < <(missing_packages)
    mapfile -t stale < <(stale_sources)
    : >"$LOG"
    if ((${#missing[@]})); then install_packages "${missing[@]}"; fi
    if ((${#stale[@]})); then fetch_sources "${stale[@]}"; fi
    while read -r folder; do
      fetch_node_folder "$folder" </dev/null
    done < <(stale_node_folders)
    fetched=${#stale[@]}
  fi
  if [[ -n $result ]]; then
    printf 'result: packages=%d installed=%d sources=%d fetched=%d seconds=%d\n' "$(wanted_packages | wc -l)" \
      "${#missing[@]}" "$((${#SOURCES[@]} + ${#PROGRAMS[@]}))" "$fetched" "$((SECONDS - begin))"
  fi
}

main "$@"
