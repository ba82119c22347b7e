// For LD_PRELOAD: counts the calls of a program that change files below a folder, and at call N kills the
// process, interrupts it, or makes the disk full. tests/fuzz/file_calls.py builds it and sets:
//
//   HONE_CALLS_FOLDER   absolute, without a slash at its end; calls on it and below it count
//   HONE_CALLS_PROGRAM  only a process whose program has this path counts (not its children)
//   HONE_CALLS_LOG      a file outside of the folder: one line a call, "NUMBER NAME PATH", each one write
//   HONE_CALLS_AT       N, from 1; 0: only count
//   HONE_CALLS_ACT      before, after: SIGKILL before or after the call; torn: a write of half, then SIGKILL;
//                       interrupt: SIGINT after it; once, full: this call, or it and all later ones, fail
//   HONE_CALLS_ERRNO    of once and full; a write that fails stores half of its bytes first if HONE_CALLS_SHORT
//
// Waits of a second and more, for storage that does not answer, are left out. A failing disk refuses what needs room (new files and folders, longer files, links, fsync); what frees room
// succeeds. libc's own inner calls cannot be seen from here, so fopen and remove count as what they do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum Act { kCount, kBefore, kAfter, kTorn, kInterrupt, kOnce, kFull };

static int active, is_short, log_fd = -1, error_number = ENOSPC;
static enum Act act = kCount;
static long at;
static char folder[PATH_MAX];
static size_t folder_size;
static atomic_long calls;

__attribute__((constructor)) static void begin(void) {
  static const char* const names[] = {"count", "before", "after", "torn", "interrupt", "once", "full"};
  const char* wanted = getenv("HONE_CALLS_PROGRAM");
  const char* below = getenv("HONE_CALLS_FOLDER");
  char self[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (!wanted || !below || size < 0) return;
  self[size] = 0;
  if (strcmp(self, wanted) != 0) return;
  snprintf(folder, sizeof folder, "%s", below);
  folder_size = strlen(folder);
  const char* text = getenv("HONE_CALLS_AT");
  at = text ? atol(text) : 0;
  text = getenv("HONE_CALLS_ACT");
  for (size_t i = 0; text && i < sizeof names / sizeof *names; ++i)
    if (strcmp(text, names[i]) == 0) act = (enum Act)i;
  text = getenv("HONE_CALLS_ERRNO");
  if (text) error_number = atoi(text);
  is_short = getenv("HONE_CALLS_SHORT") != NULL;
  text = getenv("HONE_CALLS_LOG");
  if (text) log_fd = (int)syscall(SYS_openat, AT_FDCWD, text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  active = 1;
}

static int is_below(const char* path) {
  return strncmp(path, folder, folder_size) == 0 && (path[folder_size] == '/' || path[folder_size] == 0);
}

static int path_of_fd(int fd, char* out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, out, PATH_MAX - 1);
  if (size < 0) return 0;
  out[size] = 0;
  return 1;
}

// `name` from `fd` as an absolute path, without its dots resolved: hone's paths are normal. 0: not below the folder.
static int find(int fd, const char* name, char* out) {
  if (!active || !name) return 0;
  if (name[0] == '/') {
    snprintf(out, PATH_MAX, "%s", name);
  } else {
    char base[PATH_MAX];
    if (fd == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of_fd(fd, base)) return 0;
    while (name[0] == '.' && name[1] == '/') name += 2;
    if (snprintf(out, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
  }
  return is_below(out);
}

static int find_fd(int fd, char* out) { return active && path_of_fd(fd, out) && is_below(out); }

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// What is to happen with this call: 0 go on, 1 fail with error_number. Ends the process if it is `before`.
static int begins(const char* name, const char* path, int needs_room, long* number) {
  *number = atomic_fetch_add(&calls, 1) + 1;
  if (log_fd >= 0) {
    char line[PATH_MAX + 64];
    const int size = snprintf(line, sizeof line, "%ld %s %s\n", *number, name, path);
    if (size > 0) (void)!syscall(SYS_write, log_fd, line, (size_t)size);
  }
  if (at == 0 || *number < at) return 0;
  if (act == kBefore && *number == at) die();
  if (act == kFull || (act == kOnce && *number == at)) return needs_room;
  return 0;
}

static void ends(long number) {
  if (at == 0 || number != at) return;
  const int kept = errno;
  if (act == kAfter || act == kTorn) die();
  if (act == kInterrupt) kill(getpid(), SIGINT);
  errno = kept;
}

#define REAL(type, name, ...)                                \
  static type (*real)(__VA_ARGS__);                          \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define WATCHED(found, name, room, failed, call)   \
  char path[PATH_MAX];                             \
  if (!(found)) return call;                       \
  long number;                                     \
  if (begins(name, path, room, &number)) {         \
    errno = error_number;                          \
    return failed;                                 \
  }                                                \
  __typeof__(call) result = call;                  \
  ends(number);                                    \
  return result

// ---- opening
static int changes(int flags) { return flags & (O_CREAT | O_TRUNC); }

#define OPEN(name)                                              \
  int name(const char* file, int flags, ...) {                  \
    va_list more;                                               \
    va_start(more, flags);                                      \
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                               \
    REAL(int, #name, const char*, int, ...);                    \
    WATCHED(changes(flags) && find(AT_FDCWD, file, path), "open", flags & O_CREAT, -1, real(file, flags, mode)); \
  }
#define OPENAT(name)                                            \
  int name(int fd, const char* file, int flags, ...) {          \
    va_list more;                                               \
    va_start(more, flags);                                      \
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                               \
    REAL(int, #name, int, const char*, int, ...);               \
    WATCHED(changes(flags) && find(fd, file, path), "open", flags & O_CREAT, -1, real(fd, file, flags, mode)); \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                             \
  FILE* name(const char* file, const char* mode) {              \
    REAL(FILE*, #name, const char*, const char*);               \
    WATCHED(mode[0] != 'r' && find(AT_FDCWD, file, path), "fopen", 1, NULL, real(file, mode)); \
  }
FOPEN(fopen)
FOPEN(fopen64)

// ---- writing
#define PART(call_half, size)                                    \
  if (number == at && (act == kTorn || (act == kOnce && is_short) || (act == kFull && is_short)) && (size) > 1) { \
    const ssize_t half = call_half;                              \
    if (act == kTorn) die();                                     \
    return half;                                                 \
  }

ssize_t write(int fd, const void* data, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  char path[PATH_MAX];
  if (fd <= 2 || !find_fd(fd, path)) return real(fd, data, size);
  long number;
  const int fails = begins("write", path, 1, &number);
  PART(real(fd, data, size / 2), size)
  if (fails) {
    errno = error_number;
    return -1;
  }
  const ssize_t result = real(fd, data, size);
  ends(number);
  return result;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  REAL(ssize_t, "writev", int, const struct iovec*, int);
  WATCHED(find_fd(fd, path), "writev", 1, -1, real(fd, parts, count));
}

#define PWRITE(name, offset_type)                                \
  ssize_t name(int fd, const void* data, size_t size, offset_type offset) { \
    REAL(ssize_t, #name, int, const void*, size_t, offset_type); \
    char path[PATH_MAX];                                         \
    if (!find_fd(fd, path)) return real(fd, data, size, offset); \
    long number;                                                 \
    const int fails = begins("pwrite", path, 1, &number);        \
    PART(real(fd, data, size / 2, offset), size)                 \
    if (fails) {                                                 \
      errno = error_number;                                      \
      return -1;                                                 \
    }                                                            \
    const ssize_t result = real(fd, data, size, offset);         \
    ends(number);                                                \
    return result;                                               \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

int fsync(int fd) {
  REAL(int, "fsync", int);
  WATCHED(find_fd(fd, path), "fsync", 1, -1, real(fd));
}
int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  WATCHED(find_fd(fd, path), "fdatasync", 1, -1, real(fd));
}

// ---- sizes: only making a file longer needs room, and hone makes them shorter
#define TRUNCATE(name, offset_type)                              \
  int name(const char* file, offset_type size) {                 \
    REAL(int, #name, const char*, offset_type);                  \
    WATCHED(find(AT_FDCWD, file, path), "truncate", 0, -1, real(file, size)); \
  }
TRUNCATE(truncate, off_t)
TRUNCATE(truncate64, off64_t)
#define FTRUNCATE(name, offset_type)                             \
  int name(int fd, offset_type size) {                           \
    REAL(int, #name, int, offset_type);                          \
    WATCHED(find_fd(fd, path), "ftruncate", 0, -1, real(fd, size)); \
  }
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)
int posix_fallocate(int fd, off_t offset, off_t size) {
  REAL(int, "posix_fallocate", int, off_t, off_t);
  WATCHED(find_fd(fd, path), "fallocate", 1, error_number, real(fd, offset, size));
}

// ---- names
int rename(const char* from, const char* to) {
  REAL(int, "rename", const char*, const char*);
  WATCHED(find(AT_FDCWD, to, path) || find(AT_FDCWD, from, path), "rename", 0, -1, real(from, to));
}
int renameat(int from_fd, const char* from, int to_fd, const char* to) {
  REAL(int, "renameat", int, const char*, int, const char*);
  WATCHED(find(to_fd, to, path) || find(from_fd, from, path), "rename", 0, -1, real(from_fd, from, to_fd, to));
}
int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) {
  REAL(int, "renameat2", int, const char*, int, const char*, unsigned);
  WATCHED(find(to_fd, to, path) || find(from_fd, from, path), "rename", 0, -1, real(from_fd, from, to_fd, to, flags));
}
int link(const char* from, const char* to) {
  REAL(int, "link", const char*, const char*);
  WATCHED(find(AT_FDCWD, to, path), "link", 1, -1, real(from, to));
}
int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) {
  REAL(int, "linkat", int, const char*, int, const char*, int);
  WATCHED(find(to_fd, to, path), "link", 1, -1, real(from_fd, from, to_fd, to, flags));
}
int symlink(const char* target, const char* file) {
  REAL(int, "symlink", const char*, const char*);
  WATCHED(find(AT_FDCWD, file, path), "symlink", 1, -1, real(target, file));
}
int unlink(const char* file) {
  REAL(int, "unlink", const char*);
  WATCHED(find(AT_FDCWD, file, path), "unlink", 0, -1, real(file));
}
int unlinkat(int fd, const char* file, int flags) {
  REAL(int, "unlinkat", int, const char*, int);
  WATCHED(find(fd, file, path), "unlink", 0, -1, real(fd, file, flags));
}
int remove(const char* file) {
  REAL(int, "remove", const char*);
  WATCHED(find(AT_FDCWD, file, path), "remove", 0, -1, real(file));
}
int rmdir(const char* file) {
  REAL(int, "rmdir", const char*);
  WATCHED(find(AT_FDCWD, file, path), "rmdir", 0, -1, real(file));
}
int mkdir(const char* file, mode_t mode) {
  REAL(int, "mkdir", const char*, mode_t);
  WATCHED(find(AT_FDCWD, file, path), "mkdir", 1, -1, real(file, mode));
}
int mkdirat(int fd, const char* file, mode_t mode) {
  REAL(int, "mkdirat", int, const char*, mode_t);
  WATCHED(find(fd, file, path), "mkdir", 1, -1, real(fd, file, mode));
}

int nanosleep(const struct timespec* asked, struct timespec* left) {
  if (active && asked->tv_sec > 0) return 0;
  return (int)syscall(SYS_nanosleep, asked, left);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec* asked, struct timespec* left) {
  if (active && flags == 0 && asked->tv_sec > 0) return 0;
  return syscall(SYS_clock_nanosleep, clock, flags, asked, left) == 0 ? 0 : errno;
}
