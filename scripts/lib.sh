# lib.sh: what demo, check, bench and gpu-check share: packages, CUDA headers, build folders.
# Sourced, not run. The sourcing script sets `self`, its name in messages.
# shellcheck shell=bash disable=SC2034,SC2154

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P) || exit 1
jobs=$(nproc 2>/dev/null || echo 2)
cuda_argument= # --with-cuda=DIR as it was given

# libtool, a shell script of 11,000 lines, runs for each object and program: dash takes half the
# time of bash to read it.
[ ! -x /bin/dash ] || export CONFIG_SHELL=/bin/dash

say()
{
    printf '%s: %s\n' "$self" "$1"
}

fail()
{
    printf '%s: %s\n' "$self" "$1" >&2
    exit 1
}

have()
{
    command -v "$1" >/dev/null 2>&1
}

# Is there a header for the compiler?
have_header()
{
    # shellcheck disable=SC2086 # a list of options
    printf '#include <%s>\n' "$1" | cc ${CPPFLAGS:-} -E -xc - >/dev/null 2>&1
}

# Package names of what is missing for: build, unit (the unit tests).
missing_packages()
{
    local part
    for part in "$@"; do
        case $part in
        build)
            if ! have cc || ! have make; then echo build-essential; fi
            if needs_autoreconf; then
                have autoreconf || echo autoconf
                have automake || echo automake
                have libtoolize || echo libtool
                have pkg-config || echo pkg-config
            fi
            # Without a compiler nothing can be looked for in its path.
            if [ ! -f /usr/include/uthash.h ] && ! have_header uthash.h; then echo uthash-dev; fi
            ;;
        unit)
            have pkg-config || echo pkg-config
            pkg-config --exists 'check >= 0.12' 2>/dev/null || echo check
            ;;
        esac
    done | sort -u
}

# install_packages NAME...: by apt-get, as root or through sudo.
install_packages()
{
    local as_root=()
    [ $# -gt 0 ] || return 0
    have apt-get || fail "no apt-get here; install what these Debian packages hold: $*"
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || fail "not root and no sudo; as root: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing $*"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y update </dev/null >/dev/null ||
        say "apt-get update failed; going on with the lists that are here"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install \
        --no-install-recommends "$@" </dev/null >/dev/null || return 1
}

# Where configure will find cuda.h, in its order; nothing where there is none.
find_cuda()
{
    local folder package
    for folder in "${cuda_argument#--with-cuda=}" "${CUDA_HOME:-}" /usr/local/cuda; do
        if [ -n "$folder" ] && [ -f "$folder/include/cuda.h" ]; then
            echo "$folder"
            return 0
        fi
        [ -z "$cuda_argument" ] || return 1
    done
    for package in cuda cuda-13.0; do
        if pkg-config --exists "$package" 2>/dev/null; then
            pkg-config --variable=prefix "$package"
            return 0
        fi
    done
    if have_header cuda.h; then
        echo "the compiler's own path"
        return 0
    fi
    return 1
}

require_cuda()
{
    find_cuda >/dev/null ||
        fail "no CUDA headers (include/cuda.h): give --with-cuda=DIR or set CUDA_HOME"
}

# A git clone has no configure; a release has one, which does without the autotools whatever its
# files' dates have become on the way.
needs_autoreconf()
{
    [ -f "$tree/configure" ] || return 0
    have autoreconf && have automake && have libtoolize &&
        [ -n "$(find "$tree/configure.ac" "$tree/VERSION" "$tree"/m4/gb_*.m4 \
            -newer "$tree/configure" 2>/dev/null)" ]
}

make_configure()
{
    if needs_autoreconf; then
        (cd "$tree" && autoreconf -i) || return 1
    fi
}

# configure_in FOLDER ARGUMENT...: a folder configured otherwise before starts afresh, since
# objects do not depend on their flags.
configure_in()
{
    local folder=$1
    shift
    [ -z "$cuda_argument" ] || set -- "$cuda_argument" "$@"
    make_configure || return 1
    if [ -f "$folder/config.status" ] && [ "$(cat "$folder/configured-with" 2>&1)" = "$*" ] &&
        [ ! "$tree/configure" -nt "$folder/config.status" ]; then
        return 0
    fi
    if [ -n "$(ls -A "$folder" 2>/dev/null)" ] && [ ! -f "$folder/config.log" ]; then
        printf '%s: %s holds something that is no build; move it away\n' "$self" "$folder" >&2
        return 1
    fi
    rm -rf "$folder"
    mkdir -p "$folder" || return 1
    (cd "$folder" && "$tree/configure" -q "$@") || return 1
    printf '%s\n' "$*" >"$folder/configured-with"
}
