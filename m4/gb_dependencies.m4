dnl What the build needs, each missing piece ending in one line that names the
dnl Debian package or the option.

dnl GB_CHECK_CUDA: cuda.h of CUDA 13.0 or newer. Searched in this order: --with-cuda=DIR,
dnl $CUDA_HOME, /usr/local/cuda, pkg-config (cuda, then cuda-13.0), the compiler's own path.
AC_DEFUN([GB_CHECK_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit whose DIR/include/cuda.h is used])],
    [], [with_cuda=])
  AC_ARG_VAR([CUDA_HOME], [CUDA toolkit, used where --with-cuda is not given])
  AC_MSG_CHECKING([for cuda.h])
  CUDA_CPPFLAGS=
  gb_cuda_where=
  AS_IF([test "x$with_cuda" = xno], [with_cuda=])
  AS_IF([test "x$with_cuda" = xyes], [with_cuda=])
  AS_IF([test -n "$with_cuda"],
    [AS_IF([test -f "$with_cuda/include/cuda.h"], [gb_cuda_where=$with_cuda/include],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([no include/cuda.h under --with-cuda=$with_cuda])])])
  AS_IF([test -z "$gb_cuda_where"], [
    for gb_dir in "$CUDA_HOME" /usr/local/cuda; do
      AS_IF([test -z "$gb_cuda_where" && test -n "$gb_dir" && test -f "$gb_dir/include/cuda.h"],
        [gb_cuda_where=$gb_dir/include])
    done])
  AS_IF([test -z "$gb_cuda_where" && test -n "$PKG_CONFIG"], [
    for gb_pc in cuda cuda-13.0; do
      AS_IF([test -z "$gb_cuda_where" && $PKG_CONFIG --exists $gb_pc],
        [gb_cuda_where=`$PKG_CONFIG --variable=includedir $gb_pc`])
    done])
  AS_IF([test -n "$gb_cuda_where"], [CUDA_CPPFLAGS="-isystem $gb_cuda_where"])
  gb_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
  AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <cuda.h>]])], [],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([cuda.h not found: give --with-cuda=DIR or set CUDA_HOME (the CUDA 13 toolkit, package cuda-driver-dev-13-0)])])
  AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <cuda.h>
#if CUDA_VERSION < 13000
#error too old
#endif]])], [],
    [AC_MSG_RESULT([too old])
     AC_MSG_ERROR([cuda.h ${gb_cuda_where:+in $gb_cuda_where }is older than CUDA 13.0: give --with-cuda=DIR of a CUDA 13 toolkit (any driver will do at run time)])])
  CPPFLAGS=$gb_save_CPPFLAGS
  AC_MSG_RESULT([${gb_cuda_where:-in the compiler's path}])
  AC_SUBST([CUDA_CPPFLAGS])
])

AC_DEFUN([GB_CHECK_UTHASH], [
  AC_CHECK_HEADER([uthash.h], [],
    [AC_MSG_ERROR([uthash.h not found: install the Debian package uthash-dev, or add its folder to CPPFLAGS])])
])

dnl GB_CHECK_CHECK: only `make check` needs Check; without it that target says so.
AC_DEFUN([GB_CHECK_CHECK], [
  PKG_CHECK_MODULES([CHECK], [check >= 0.12], [gb_have_check=yes], [gb_have_check=no])
  AM_CONDITIONAL([HAVE_CHECK], [test "$gb_have_check" = yes])
])
