// What a command reads is never removed or overwritten: before it writes, what it reads is held against the
// places where it will write. Files and folders are compared by what they are (device and inode), so that
// symbolic and hard links, bind mounts, ".." and file systems that do not tell upper from lower case change
// nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace hone::base {

// Something that a command reads: a file, or a folder with the files in it. A place that does not exist
// counts for nothing.
struct ReadPlace {
  std::string option;  // that names it, for messages
  fs::path path;
};

// A command writes to this place.
struct WrittenPlace {
  std::string option;
  fs::path path;
  // A folder of which the command may write over, or remove, the entries with these names, each with all that
  // is in it; empty: `path` itself is replaced, a file or a folder.
  std::function<bool(const std::string& name)> touches = {};
  // An earlier call of the command wrote this file, as its content shows. A folder that is read may hold it:
  // it is no input.
  bool own = false;
};

// UserError when something that is read
//   is the folder that is written (where `touches` is set), or
//   is, holds, or lies in something that is written over or removed.
// A folder that is read may be around the one that is written (out in the model's folder), and within it (the
// model in out/base), as long as `touches` does not name it. Writes nothing.
void require_apart(const std::vector<WrittenPlace>& written, const std::vector<ReadPlace>& read);

}  // namespace hone::base
