// What a piece of code does to the folders below a root, call by call, and what the disk may hold after a
// kill or a power cut at each point. In the program that includes this (one .cpp of it), the C library's
// calls that change files are recorded; nothing in the code under test knows of it.
//
// A kill keeps every call that was made. A power cut keeps what was synced, and of the rest anything: a new
// name, a rename or a removal is on the disk for certain once each folder that it changes was fsynced after
// it (otherwise it may be there or not, each for itself); bytes of a file once it was fsynced (otherwise all
// or none of them). That is less than any usual file system promises.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace hone::trace {

namespace fs = std::filesystem;

// Where trees are laid out: in memory where that is offered, for there are hundreds of them.
inline fs::path scratch(const std::string& name) {
  std::error_code none;
  const fs::path in = fs::is_directory("/dev/shm", none) ? fs::path("/dev/shm") : fs::temp_directory_path();
  return in / (name + "_" + std::to_string(::getpid()));
}

// A tree of files: path below the root -> text; folders end in '/'.
using Tree = std::map<std::string, std::string>;

struct Call {
  enum class Kind { kName, kData, kSync } kind;
  // kName: edits of folders: {folder, name, inode}, inode 0: the name goes.
  struct Edit {
    std::uint64_t folder;
    std::string name;
    std::uint64_t inode;
  };
  std::vector<Edit> edits;
  std::uint64_t inode = 0;  // kName: what is made (with `folder`); kData, kSync: of what
  bool folder = false;
  std::string bytes;
};

class Recorder {
 public:
  static Recorder& the() {
    static Recorder one;
    return one;
  }
  bool on = false;
  bool no_sync = false;  // replays need no disk
  fs::path root;
  std::vector<Call> calls;
  std::map<std::uint64_t, std::map<std::string, std::uint64_t>> folders;  // as it was at the beginning
  std::map<std::uint64_t, std::string> files;
  std::uint64_t root_id = 0;

  void begin(const fs::path& at) {
    root = fs::canonical(at);
    calls.clear();
    folders.clear();
    files.clear();
    ids_.clear();
    root_id = scan(root);
    on = true;
  }
  std::vector<Call> end() {
    on = false;
    return std::move(calls);
  }

  // The number that this test gave the inode; 0: outside the root.
  std::uint64_t id_of(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return 0;
    return known(status);
  }
  std::uint64_t id_of(const fs::path& path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return 0;
    return known(status);
  }
  std::uint64_t add(const fs::path& path) {
    struct stat status{};
    ::lstat(path.c_str(), &status);
    return ids_[status.st_ino] = ++last_id_;
  }
  void forget(const fs::path& path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0 && (status.st_nlink == 1 || S_ISDIR(status.st_mode)))
      ids_.erase(status.st_ino);
  }

 private:
  std::uint64_t known(const struct stat& status) const {
    const auto found = ids_.find(status.st_ino);
    return found == ids_.end() ? 0 : found->second;
  }
  std::uint64_t scan(const fs::path& path) {
    const std::uint64_t id = add(path);
    if (fs::is_directory(path)) {
      folders[id];
      for (const auto& entry : fs::directory_iterator(path))
        folders[id][entry.path().filename()] = scan(entry);
    } else {
      std::ifstream file(path, std::ios::binary);
      files[id] = std::string((std::istreambuf_iterator<char>(file)), {});
    }
    return id;
  }
  std::map<ino_t, std::uint64_t> ids_;
  std::uint64_t last_id_ = 0;
};

inline fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

inline fs::path at_path(int folder, const char* name) {
  if (folder == AT_FDCWD || name[0] == '/') return name;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(folder)) / name;
}

// The folder's number, also when `path` itself goes through links.
inline std::uint64_t folder_id(const fs::path& path) {
  struct stat status{};
  const fs::path folder = folder_of(path);
  return ::stat(folder.c_str(), &status) == 0 ? Recorder::the().id_of(fs::canonical(folder)) : 0;
}

inline void made(const fs::path& path, bool folder) {
  Recorder& recorder = Recorder::the();
  const std::uint64_t in = folder_id(path);
  if (in == 0) return;
  const std::uint64_t id = recorder.add(path);
  recorder.calls.push_back({.kind = Call::Kind::kName,
                            .edits = {{in, path.filename(), id}},
                            .inode = id,
                            .folder = folder,
                            .bytes = {}});
}

inline void gone(const fs::path& path) {
  Recorder& recorder = Recorder::the();
  const std::uint64_t in = folder_id(path);
  if (in == 0) return;
  recorder.calls.push_back({.kind = Call::Kind::kName,
                            .edits = {{in, path.filename(), 0}},
                            .inode = 0,
                            .folder = false,
                            .bytes = {}});
}

// Every tree that the disk may hold when the machine stops after `made_calls` calls; `kill`: only the
// process.
inline std::set<Tree> trees_after(const Recorder& start, const std::vector<Call>& calls, std::size_t count,
                                  bool kill) {
  struct Pending {
    std::size_t call;
    std::set<std::uint64_t> unsynced;
  };
  std::vector<Pending> pending;
  std::vector<bool> durable(count, false);
  std::map<std::uint64_t, std::string> data = start.files, safe = start.files;
  std::set<std::uint64_t> is_folder;
  for (const auto& [id, names] : start.folders) is_folder.insert(id);
  for (std::size_t i = 0; i < count; ++i) {
    const Call& call = calls[i];
    if (call.kind == Call::Kind::kData) data[call.inode] += call.bytes;
    if (call.kind == Call::Kind::kName) {
      if (call.folder) is_folder.insert(call.inode);
      Pending one{.call = i, .unsynced = {}};
      for (const Call::Edit& edit : call.edits) one.unsynced.insert(edit.folder);
      pending.push_back(one);
    }
    if (call.kind == Call::Kind::kSync) {
      if (!is_folder.contains(call.inode)) safe[call.inode] = data[call.inode];
      for (Pending& one : pending) {
        one.unsynced.erase(call.inode);
        if (one.unsynced.empty()) durable[one.call] = true;
      }
      std::erase_if(pending, [](const Pending& one) { return one.unsynced.empty(); });
    }
  }
  const auto tree_of = [&](const std::vector<bool>& kept, bool keeps_data) {
    auto folders = start.folders;
    for (std::size_t i = 0; i < count; ++i) {
      if (calls[i].kind != Call::Kind::kName || !kept[i]) continue;
      for (const Call::Edit& edit : calls[i].edits) {
        auto& names = folders[edit.folder];
        if (edit.inode == 0) {
          names.erase(edit.name);
        } else {
          names[edit.name] = edit.inode;
        }
      }
    }
    Tree out;
    const std::function<void(std::uint64_t, const std::string&, int)> walk =
        [&](std::uint64_t id, const std::string& path, int depth) {
          if (depth > 20) return;
          for (const auto& [name, inode] : folders[id]) {
            if (is_folder.contains(inode)) {
              out[path + name + "/"] = "";
              walk(inode, path + name + "/", depth + 1);
            } else {
              out[path + name] = keeps_data ? data[inode] : safe[inode];
            }
          }
        };
    walk(start.root_id, "", 0);
    return out;
  };
  std::set<Tree> out;
  std::vector<bool> all(count, true);
  out.insert(tree_of(all, true));
  if (kill) return out;
  const auto add = [&](const std::function<bool(std::size_t)>& keeps) {
    std::vector<bool> kept = durable;
    for (std::size_t i = 0; i < pending.size(); ++i) kept[pending[i].call] = keeps(i);
    out.insert(tree_of(kept, true));
    out.insert(tree_of(kept, false));
  };
  if (pending.size() <= 5) {
    for (std::uint32_t bits = 0; bits < (1U << pending.size()); ++bits)
      add([bits](std::size_t i) { return (bits >> i & 1) != 0; });
    return out;
  }
  add([](std::size_t) { return false; });
  add([](std::size_t) { return true; });
  for (std::size_t one = 0; one < pending.size(); ++one) {
    add([one](std::size_t i) { return i == one; });
    add([one](std::size_t i) { return i != one; });
    add([one](std::size_t i) { return i < one; });
    add([one](std::size_t i) { return i >= one; });
  }
  std::minstd_rand random(static_cast<unsigned>(count));
  for (int draw = 0; draw < 24; ++draw) {
    const auto bits = random();
    add([bits](std::size_t i) { return (bits >> (i % 30) & 1) != 0; });
  }
  return out;
}

inline void lay(const fs::path& root, const Tree& tree) {
  fs::remove_all(root);
  fs::create_directories(root);
  for (const auto& [path, text] : tree) {
    if (path.ends_with('/')) {
      fs::create_directories(root / path);
    } else {
      std::ofstream(root / path, std::ios::binary) << text;
    }
  }
}

inline Tree tree_of(const fs::path& root) {
  Tree out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = entry.path().lexically_relative(root);
    std::ifstream file(entry.path(), std::ios::binary);
    out[entry.is_directory() ? path + "/" : path] =
        entry.is_directory() ? "" : std::string((std::istreambuf_iterator<char>(file)), {});
  }
  return out;
}

// Runs `work` on `root` and calls `look` in every tree that a kill or a power cut during it may leave, laid
// out in `elsewhere`; `finished`: work had returned, so nothing of it may be lost. Returns how many trees
// there were.
inline std::size_t at_every_cut(const fs::path& root, const fs::path& elsewhere,
                                const std::function<void()>& work,
                                const std::function<void(bool finished)>& look) {
  Recorder& recorder = Recorder::the();
  recorder.no_sync = true;
  recorder.begin(root);
  work();
  const std::vector<Call> calls = recorder.end();
  std::set<Tree> seen, last = trees_after(recorder, calls, calls.size(), false);
  for (std::size_t count = 0; count < calls.size(); ++count) {
    for (const bool kill : {true, false}) seen.merge(trees_after(recorder, calls, count, kill));
  }
  for (const Tree& tree : seen) {
    lay(elsewhere, tree);
    look(false);
  }
  for (const Tree& tree : last) {
    lay(elsewhere, tree);
    look(true);
  }
  recorder.no_sync = false;
  return seen.size() + last.size();
}

}  // namespace hone::trace

// ---- The C library's calls that change files or names, as the code under test sees them.
namespace hone::trace {
template <typename F>
F real(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}
inline int traced_open(const char* called, int folder, const char* name, int flags, mode_t mode) {
  const bool at = std::string_view(called) == "openat";
  const fs::path path = at_path(folder, name);
  struct stat status{};
  const bool there = (flags & O_CREAT) == 0 || ::lstat(path.c_str(), &status) == 0;
  const int fd = at ? real<int (*)(int, const char*, int, ...)>("openat")(folder, name, flags, mode)
                    : real<int (*)(const char*, int, ...)>("open")(name, flags, mode);
  if (Recorder::the().on && fd >= 0 && !there) made(path, false);
  return fd;
}
}  // namespace hone::trace

extern "C" {
int open(const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return hone::trace::traced_open("open", AT_FDCWD, name, flags, mode);
}
int openat(int folder, const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return hone::trace::traced_open("openat", folder, name, flags, mode);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  const ssize_t wrote = hone::trace::real<ssize_t (*)(int, const void*, size_t)>("write")(fd, bytes, size);
  auto& recorder = hone::trace::Recorder::the();
  if (!recorder.on || wrote <= 0) return wrote;
  const std::uint64_t id = recorder.id_of(fd);
  if (id != 0) {
    recorder.calls.push_back(
        {.kind = hone::trace::Call::Kind::kData,
         .edits = {},
         .inode = id,
         .folder = false,
         .bytes = std::string(static_cast<const char*>(bytes), static_cast<size_t>(wrote))});
  }
  return wrote;
}
int fsync(int fd) {
  auto& recorder = hone::trace::Recorder::the();
  if (recorder.on) {
    if (const std::uint64_t id = recorder.id_of(fd); id != 0)
      recorder.calls.push_back(
          {.kind = hone::trace::Call::Kind::kSync, .edits = {}, .inode = id, .folder = false, .bytes = {}});
  }
  return recorder.no_sync ? 0 : hone::trace::real<int (*)(int)>("fsync")(fd);
}
int rename(const char* from, const char* to) noexcept {
  auto& recorder = hone::trace::Recorder::the();
  const std::uint64_t id = recorder.on ? recorder.id_of(std::filesystem::path(from)) : 0;
  if (recorder.on && id != 0) recorder.forget(to);
  const int result = hone::trace::real<int (*)(const char*, const char*)>("rename")(from, to);
  if (result == 0 && id != 0) {
    const std::filesystem::path a = from, b = to;
    recorder.calls.push_back({.kind = hone::trace::Call::Kind::kName,
                              .edits = {{hone::trace::folder_id(a), a.filename(), 0},
                                        {hone::trace::folder_id(b), b.filename(), id}},
                              .inode = id,
                              .folder = false,
                              .bytes = {}});
  }
  return result;
}
int mkdir(const char* name, mode_t mode) noexcept {
  const int result = hone::trace::real<int (*)(const char*, mode_t)>("mkdir")(name, mode);
  if (result == 0 && hone::trace::Recorder::the().on) hone::trace::made(name, true);
  return result;
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  const auto path = hone::trace::at_path(folder, name);
  auto& recorder = hone::trace::Recorder::the();
  const bool inside = recorder.on && recorder.id_of(path) != 0;
  if (inside) recorder.forget(path);
  const int result = hone::trace::real<int (*)(int, const char*, int)>("unlinkat")(folder, name, flags);
  if (result == 0 && inside) hone::trace::gone(path);
  return result;
}
int unlink(const char* name) noexcept {
  return unlinkat(AT_FDCWD, name, 0);
}
int rmdir(const char* name) noexcept {
  return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}
int remove(const char* name) noexcept {
  struct stat status{};
  const bool folder = ::lstat(name, &status) == 0 && S_ISDIR(status.st_mode);
  return unlinkat(AT_FDCWD, name, folder ? AT_REMOVEDIR : 0);
}
}
