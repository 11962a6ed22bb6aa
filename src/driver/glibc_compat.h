/*
 * glibc_compat.h: put before every source of the preload by the compiler (-include).
 *
 * One binary must start under glibc 2.17. A newer glibc moved libdl and libpthread into libc
 * and gave their functions new symbol versions, to which a plain reference would bind; these
 * lines bind to the old versions, which every later glibc still has. On aarch64 the oldest
 * version is 2.17 itself. A name that a source does not use costs nothing.
 */
#ifndef GB_DRIVER_GLIBC_COMPAT_H
#define GB_DRIVER_GLIBC_COMPAT_H

#if defined(__x86_64__)
#define GB_OLD_VERSION(name)             __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#define GB_OLD_VERSION_AT(name, version) __asm__(".symver " #name "," #name "@GLIBC_" version)
#elif defined(__aarch64__)
#define GB_OLD_VERSION(name)             __asm__(".symver " #name "," #name "@GLIBC_2.17")
#define GB_OLD_VERSION_AT(name, version) GB_OLD_VERSION(name)
#else
#error "no glibc symbol versions known for this processor"
#endif

GB_OLD_VERSION(dlopen);
GB_OLD_VERSION(dlclose);
GB_OLD_VERSION(dlerror);
GB_OLD_VERSION(dladdr);
GB_OLD_VERSION_AT(dladdr1, "2.3.3");
GB_OLD_VERSION_AT(dlinfo, "2.3.3");
GB_OLD_VERSION_AT(dlmopen, "2.3.4");
GB_OLD_VERSION(pthread_once);
GB_OLD_VERSION(pthread_key_create);
GB_OLD_VERSION(pthread_getspecific);
GB_OLD_VERSION(pthread_setspecific);
GB_OLD_VERSION(pthread_mutex_trylock);
GB_OLD_VERSION(pthread_rwlock_init);
GB_OLD_VERSION(pthread_rwlock_rdlock);
GB_OLD_VERSION(pthread_rwlock_wrlock);
GB_OLD_VERSION(pthread_rwlock_unlock);
GB_OLD_VERSION(pthread_create);
GB_OLD_VERSION(pthread_join);
GB_OLD_VERSION(pthread_sigmask);
GB_OLD_VERSION(sem_init);
GB_OLD_VERSION(sem_post);
GB_OLD_VERSION(sem_wait);

#endif
