// For LD_PRELOAD, as tests/runs/long_runs.py builds and uses it: storage that is gone or slow, and a wall clock that is set.
//
//   HONE_SHIM_FOLDER  calls that change files on this folder and below count
//   HONE_SHIM_GONE    a file: while it exists, such calls fail with HONE_SHIM_ERRNO
//   HONE_SHIM_SLOW    milliseconds that an fsync takes there
//   HONE_SHIM_CLOCK   a file of 8 bytes: nanoseconds that the wall clock is ahead
//   HONE_SHIM_HASTE   sleeps of 0.5 s and more are so many times shorter
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *folder, *gone;
static int error_number = ESTALE;
static long slow_ms, haste;
static const volatile int64_t* ahead;

__attribute__((constructor)) static void begin(void) {
  folder = getenv("HONE_SHIM_FOLDER");
  gone = getenv("HONE_SHIM_GONE");
  const char* text = getenv("HONE_SHIM_ERRNO");
  if (text) error_number = atoi(text);
  if ((text = getenv("HONE_SHIM_SLOW"))) slow_ms = atol(text);
  if ((text = getenv("HONE_SHIM_HASTE"))) haste = atol(text);
  if ((text = getenv("HONE_SHIM_CLOCK"))) {
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
    void* at = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) ahead = at;
  }
}

static int below(const char* path) {
  if (!folder || !path) return 0;
  const size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == 0);
}

static int below_fd(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return below(path);
}

// Whether this call is to fail; sets errno.
static int fails(int concerns) {
  if (!concerns || !gone || syscall(SYS_faccessat, AT_FDCWD, gone, F_OK) != 0) return 0;
  errno = error_number;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && fails(below(path))) return -1;
  return REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && fails(below(path))) return -1;
  return REAL(open64)(path, flags, mode);
}
ssize_t write(int fd, const void* data, size_t size) {
  if (fd > 2 && fails(below_fd(fd))) return -1;
  return REAL(write)(fd, data, size);
}
int mkdir(const char* path, mode_t mode) { return fails(below(path)) ? -1 : REAL(mkdir)(path, mode); }
int rename(const char* from, const char* to) { return fails(below(to)) ? -1 : REAL(rename)(from, to); }
int unlink(const char* path) { return fails(below(path)) ? -1 : REAL(unlink)(path); }
int rmdir(const char* path) { return fails(below(path)) ? -1 : REAL(rmdir)(path); }
int ftruncate(int fd, off_t size) { return fails(below_fd(fd)) ? -1 : REAL(ftruncate)(fd, size); }
int fsync(int fd) {
  const int concerns = below_fd(fd);
  if (fails(concerns)) return -1;
  if (concerns && slow_ms) {
    struct timespec left = {slow_ms / 1000, slow_ms % 1000 * 1000000};
    while (syscall(SYS_nanosleep, &left, &left) != 0) {
    }
  }
  return REAL(fsync)(fd);
}

static struct timespec shorter(const struct timespec* asked) {
  struct timespec out = *asked;
  if (haste < 2 || (asked->tv_sec == 0 && asked->tv_nsec < 500000000)) return out;
  const int64_t all = ((int64_t)asked->tv_sec * 1000000000 + asked->tv_nsec) / haste;
  out.tv_sec = all / 1000000000;
  out.tv_nsec = all % 1000000000;
  return out;
}
int nanosleep(const struct timespec* asked, struct timespec* left) {
  const struct timespec now = shorter(asked);
  return (int)syscall(SYS_nanosleep, &now, left);
}
int clock_nanosleep(clockid_t clock, int flags, const struct timespec* asked, struct timespec* left) {
  if (flags & TIMER_ABSTIME) return REAL(clock_nanosleep)(clock, flags, asked, left);
  const struct timespec now = shorter(asked);
  return REAL(clock_nanosleep)(clock, flags, &now, left);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    const int64_t all = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *ahead;
    now->tv_sec = all / 1000000000;
    now->tv_nsec = all % 1000000000;
  }
  return result;
}
int gettimeofday(struct timeval* now, void* zone) {
  (void)zone;
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  if (out) *out = fine.tv_sec;
  return fine.tv_sec;
}
