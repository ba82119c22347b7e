// The stages of `hone gpu-check`: what each tries, and the child process that it runs in. A stage compares what the device
// computes with what the host does, or measures; it ends neither the check nor the other stages, whatever happens in it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::commands {

// A stage tells its parent each thing at once, as a line of JSON: so the parent knows what a child had begun that died.
class StageLog {
 public:
  void begin(const std::string& what);  // of one thing that is tried
  void fail(const std::string& why);    // of what has begun
  void fact(const std::string& name, const base::Json& value);
  void end() const;  // the stage is through
  std::int64_t tried() const { return tried_; }

 private:
  std::string begun_;
  std::int64_t tried_ = 0;
};

// Thrown by a stage that cannot run here: the reason, a sentence.
class CannotRun : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StageInput {
  at::Device device;
  base::fs::path scratch;  // an empty folder of this check, which later stages see too
};

struct GpuStage {
  std::string_view name;
  std::string_view what;  // for people
  int seconds;            // its limit
  void (*run)(const StageInput& input, StageLog& log);
  bool only_named = false;  // not of a whole check
};

// In the order in which they are run: card first, speed last.
std::span<const GpuStage> gpu_stages();

// ---- the stages, by file

void stage_card(const StageInput& input, StageLog& log);  // card.cpp

// operators.cpp: the list of src/ops/cases in parts, each case twice; the products and attention of real models
void stage_rows(const StageInput& input, StageLog& log);
void stage_sequences(const StageInput& input, StageLog& log);
void stage_attention(const StageInput& input, StageLog& log);
void stage_products(const StageInput& input, StageLog& log);
void stage_head(const StageInput& input, StageLog& log);
void stage_optimizer(const StageInput& input, StageLog& log);
void stage_shapes(const StageInput& input, StageLog& log);

// runs.cpp: a tiny model
void stage_methods(const StageInput& input, StageLog& log);
void stage_sampling(const StageInput& input, StageLog& log);
void stage_checkpoint(const StageInput& input, StageLog& log);

// speed.cpp
void stage_memory(const StageInput& input, StageLog& log);
void stage_rates(const StageInput& input, StageLog& log);
enum class ModelSize { kHalfBillion, kOneAndAHalf, kEight };
void measure_training(const StageInput& input, StageLog& log, ModelSize size, bool full = false);
void measure_decoding(const StageInput& input, StageLog& log, ModelSize size);

}  // namespace hone::commands
