#include "train/opening/input_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/error.h"
#include "base/files/crc32c.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

// Of the first and last bytes, and of pieces between them.
std::uint32_t sampled_print(const fs::path& path) {
  constexpr std::size_t kSampledPiece = 1 << 16, kSampledPieces = 16;
  const base::MappedFile file = base::MappedFile::open(path);
  const auto bytes = file.bytes();
  if (bytes.size() <= kSampledPiece * (kSampledPieces + 2)) return base::crc32c(bytes);
  std::uint32_t crc = base::crc32c(bytes.last(kSampledPiece));
  const std::size_t stride = (bytes.size() - kSampledPiece) / (kSampledPieces + 1);
  for (std::size_t i = 0; i <= kSampledPieces; ++i)
    crc = base::crc32c(bytes.subspan(i * stride, kSampledPiece), crc);
  return crc;
}

}  // namespace

InputWatch::InputWatch(const config::Plan& plan) {
  for (const fs::path& path : plan.train_rows.files()) add(path, plan.dataset_streaming);
  for (const fs::path& path : plan.eval_rows.files()) add(path, false);
  for (const fs::path& model : {fs::path(plan.model_name_or_path), fs::path(plan.ref_model)}) {
    std::error_code none;
    if (!fs::is_directory(model, none)) add(model, false);
    for (fs::directory_iterator entry(model, none); !none && entry != fs::directory_iterator();
         entry.increment(none)) {
      if (entry->path().extension() == ".safetensors") add(entry->path(), false);
    }
  }
}

// What is not there, or no file, is for those who read it to say.
void InputWatch::add(const fs::path& path, bool read_again) {
  struct stat now{};
  if (::stat(path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return;
  files_.push_back({.path = path,
                    .read_again = read_again,
                    .device = now.st_dev,
                    .inode = now.st_ino,
                    .bytes = static_cast<std::uint64_t>(now.st_size),
                    .seconds = now.st_mtim.tv_sec,
                    .nanoseconds = now.st_mtim.tv_nsec,
                    .print = read_again ? sampled_print(path) : 0});
}

std::vector<std::string> InputWatch::look() {
  std::vector<std::string> notes;
  for (File& file : files_) {
    struct stat now{};
    const int error = ::stat(file.path.c_str(), &now) == 0 ? 0 : errno;
    const bool gone = error == ENOENT || error == ENOTDIR;
    if (file.told || (error != 0 && !gone)) continue;  // storage that does not answer says nothing
    const bool same = !gone && now.st_dev == file.device && now.st_ino == file.inode &&
                      static_cast<std::uint64_t>(now.st_size) == file.bytes &&
                      now.st_mtim.tv_sec == file.seconds && now.st_mtim.tv_nsec == file.nanoseconds;
    if (same) continue;
    const bool resized = !gone && static_cast<std::uint64_t>(now.st_size) != file.bytes;
    if (!gone && !resized && file.read_again && sampled_print(file.path) == file.print) continue;
    const std::string found = gone      ? "is gone"
                              : resized ? "has " + std::to_string(now.st_size) + " bytes, and had " +
                                              std::to_string(file.bytes) + " when the run began"
                                        : "was written again since the run began";
    if (file.read_again) {
      throw base::UserError(
          {.where = file.path.string(),
           .expected = "the rows that the run began with: dataset_streaming reads them as they are needed",
           .found = "the file " + found,
           .cause = "somebody or a program changed it",
           .fix = "put it back; or resume with the rows as they are now, and the run is not equal to one of "
                  "either"});
    }
    file.told = true;
    notes.push_back(file.path.string() + " " + found +
                    ": this run goes on with what it has read; a resumed one would read it as it is then");
  }
  return notes;
}

}  // namespace hone::train
