// TensorBoard event files: TFRecord framing (length, masked CRC-32C, bytes, masked CRC-32C) around Event
// protobufs whose few fields are encoded by hand (tensorflow/core/util/event.proto,
// core/framework/summary.proto).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/appended_file.h"
#include "base/files/file.h"

namespace hone::report {

class TensorboardWriter {
 public:
  // A new events.out.tfevents.* file. first_step > 0: a resumed run's; TensorBoard then drops what earlier
  // files of the folder say of later steps.
  explicit TensorboardWriter(const base::fs::path& folder, std::int64_t first_step = 0);
  TensorboardWriter(const TensorboardWriter&) = delete;
  TensorboardWriter& operator=(const TensorboardWriter&) = delete;
  ~TensorboardWriter();
  void scalar(std::string_view tag, float value, std::int64_t step);
  void text(std::string_view tag, std::string_view markdown, std::int64_t step);
  void flush();  // UserError when the file could not be written

 private:
  void record(const std::string& event);
  base::fs::path path_;
  std::optional<base::AppendedFile> file_;
  std::string batch_;  // until the next flush
};

// transformers' TensorBoardCallback naming: "eval_loss" -> "eval/loss", "test_loss" -> "test/loss", else
// "train/<name>": "reward" -> "train/reward", "train_loss" -> "train/train_loss".
std::string tensorboard_tag(std::string_view name);

}  // namespace hone::report
