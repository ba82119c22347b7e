// What a card does in a second, and what a run needs of its memory: with a model of Qwen2.5-0.5B's shapes, whose numbers are
// drawn on the device (zeros would be too fast).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/stopwatch.h"
#include "commands/gpu_check/made_runs.h"
#include "commands/gpu_check/stage.h"
#include "commands/gpu_check/tiny_model.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "ops/machine/device_memory.h"
#include "rollout/generate.h"
#include "train/opening/open_run.h"

namespace hone::commands {

namespace {

// A made model, the rows and tokens of a step of it, and the free memory without which it is not tried.
struct Measure {
  const char* name;
  MadeShape shape;
  std::int64_t rows, tokens, gigabytes;
};

Measure measure_of(ModelSize size) {
  switch (size) {
    case ModelSize::kHalfBillion:
      return {"0.5B", kHalfBillion, 8, 1024, 16};
    case ModelSize::kOneAndAHalf:
      return {"1.5B", kOneAndAHalfBillion, 4, 2048, 28};
    default:
      return {"8B", kEightBillion, 4, 2048, 72};
  }
}

// Until the device has done all that was asked of it.
void wait_for(at::Device device) {
  at::zeros({1}, at::TensorOptions(device)).item<float>();
}

// Seconds of a call, of several after one that warms up.
template <typename Call>
double seconds_of(at::Device device, int times, const Call& call) {
  call();
  wait_for(device);
  const auto start = base::Clock::now();
  for (int i = 0; i < times; ++i) call();
  wait_for(device);
  return base::seconds_since(start) / times;
}

void draw(const ops::Weight& weight) {
  if (!weight.has_numbers() || weight.is_quantized()) return;
  const at::Tensor& numbers = weight.plain();
  numbers.normal_(0, 0.02);
}

void fill(const model::CausalLm& model) {
  const at::NoGradGuard no_grad;
  draw(model.head());
  at::Tensor(model.final_norm()).fill_(1);
  for (const model::DecoderLayer& layer : model.layers()) {
    for (const at::Tensor& norm : layer.norms.weights)
      if (norm.defined()) at::Tensor(norm).fill_(1);
  }
  for (const ops::Linear* const linear : model.linears()) draw(linear->weight);
}

void require_room(const StageInput& input, const Measure& measure) {
  const std::int64_t needed = measure.gigabytes * 1000 * 1000 * 1000;
  const std::int64_t free = ops::device_memory(input.device).free;
  if (free < needed)
    throw CannotRun("needs " + base::gigabytes(needed) + " of free memory on the device, found " +
                    base::gigabytes(free));
}

MadeRun run_of(const StageInput& input, const Measure& measure, const std::string& output, int steps,
               bool full) {
  make_rows(input.scratch);
  MadeRun out = {.model = make_model(input.scratch / measure.name, measure.shape),
                 .rows = input.scratch / "long.jsonl",
                 .output = input.scratch / "runs" / (output + measure.name),
                 .bf16 = true,
                 .words = {"--max_steps", std::to_string(steps), "--per_device_train_batch_size",
                           std::to_string(measure.rows), "--max_length", std::to_string(measure.tokens),
                           "--save_strategy", "no", "--dtype", "bfloat16"},
                 .device = input.device.str(),
                 .full = full};
  if (!full) out.words.insert(out.words.end(), {"--lora_r", "16", "--lora_target_modules", "all-linear"});
  return out;
}

class StepTimes final : public train::RunListener {
 public:
  explicit StepTimes(at::Device device) : device_(device) {}
  void on_step(const train::StepFacts& facts, std::int64_t /*total*/) override {
    wait_for(device_);
    ends.push_back(base::Clock::now());
    loss = facts.loss;
  }
  std::vector<base::Clock::time_point> ends;
  double loss = 0;

 private:
  at::Device device_;
};

// Trains; planned and reserved bytes, and seconds of a step after the first two.
struct Measured {
  std::int64_t planned = 0, reserved = 0;
  double seconds = 0, loss = 0;
};

Measured train_and_measure(const StageInput& input, const MadeRun& made) {
  StepTimes times(input.device);
  const std::atomic<bool> stop = false;
  const auto run = train::open_run(plan_of(made), times);
  fill(*run->model);
  train::begin_run(*run, times, stop);
  Measured out{.planned = run->start.memory.total,
               .reserved = ops::device_memory(input.device).peak,
               .loss = times.loss};
  const std::size_t n = times.ends.size();
  if (n > 2)
    out.seconds =
        std::chrono::duration<double>(times.ends[n - 1] - times.ends[1]).count() / static_cast<double>(n - 2);
  return out;
}

std::string describe(const Measure& measure, bool full) {
  return std::string(measure.name) + (full ? ", in full, " : ", LoRA, ") + std::to_string(measure.rows) +
         " x " + std::to_string(measure.tokens) + " tokens";
}

void measure_launches(const StageInput& input, StageLog& log) {
  log.begin("2000 small kernels");
  at::Tensor x = at::zeros({64}, at::TensorOptions(input.device));
  const double seconds = seconds_of(input.device, 2000, [&] { x.add_(1); });
  log.fact("microseconds a launch", seconds * 1e6);
}

void measure_copies(const StageInput& input, StageLog& log, std::int64_t bytes) {
  const at::TensorOptions there = at::TensorOptions(input.device).dtype(at::kByte);
  at::Tensor from = at::zeros({bytes}, there), to = at::empty({bytes}, there);
  const auto rate = [&](double seconds, std::int64_t moved) {
    return static_cast<double>(moved) / seconds / 1e9;
  };
  log.begin("a copy on the device");
  log.fact("GB/s on the device, read and written",
           rate(seconds_of(input.device, 10, [&] { to.copy_(from); }), 2 * bytes));
  log.begin("copies between host and device");
  const std::int64_t part = bytes / 4;
  at::Tensor host = at::zeros({part}, at::kByte);
  if (input.device.is_cuda()) host = host.pin_memory();
  at::Tensor small = to.narrow(0, 0, part);
  log.fact("GB/s to the device, pinned",
           rate(seconds_of(input.device, 4, [&] { small.copy_(host, true); }), part));
  log.fact("GB/s to the host, pinned",
           rate(seconds_of(input.device, 4, [&] { host.copy_(small, true); }), part));
}

void measure_products(const StageInput& input, StageLog& log, std::int64_t rows) {
  struct Product {
    const char* name;
    std::int64_t in, out;
  };
  constexpr Product kProducts[] = {{"0.5B q, k, v", 896, 1152},  {"0.5B gate, up", 896, 9728},
                                   {"0.5B down", 4864, 896},     {"1.5B gate, up", 1536, 17920},
                                   {"1.5B down", 8960, 1536},    {"8B q, k, v", 4096, 6144},
                                   {"8B gate, up", 4096, 24576}, {"8B down", 12288, 4096}};
  const at::TensorOptions there = at::TensorOptions(input.device).dtype(at::kBFloat16);
  for (const Product& one : kProducts) {
    log.begin(std::string("a product, ") + one.name);
    const at::Tensor x = at::empty({rows, one.in}, there).normal_(),
                     w = at::empty({one.out, one.in}, there).normal_();
    at::Tensor out = at::empty({rows, one.out}, there);
    const double seconds = seconds_of(input.device, 10, [&] { at::mm_out(out, x, w.t()); });
    log.fact(std::string("TFLOP/s, ") + one.name + ", " + std::to_string(rows) + " rows",
             2.0 * static_cast<double>(rows * one.in * one.out) / seconds / 1e12);
  }
}

}  // namespace

void stage_memory(const StageInput& input, StageLog& log) {
  const Measure measure = measure_of(ModelSize::kHalfBillion);
  require_room(input, measure);
  log.begin(describe(measure, false));
  const Measured found = train_and_measure(input, run_of(input, measure, "memory", 3, false));
  log.fact("planned", base::gigabytes(found.planned));
  log.fact("reserved by the allocator, at most", base::gigabytes(found.reserved));
  const double above =
      static_cast<double>(found.planned) / static_cast<double>(std::max<std::int64_t>(1, found.reserved)) - 1;
  log.fact("planned above reserved, percent", 100 * above);
  if (above < -0.05) log.fail("the run needs more than 5 % above its plan");
}

void stage_rates(const StageInput& input, StageLog& log) {
  const at::NoGradGuard no_grad;
  const bool real = input.device.is_cuda();
  measure_launches(input, log);
  measure_copies(input, log, real ? std::int64_t{1} << 30 : 1 << 20);
  measure_products(input, log, real ? 8192 : 8);
}

// A LoRA without dropout and with PEFT's usual one.
void measure_training(const StageInput& input, StageLog& log, ModelSize size, bool full) {
  const Measure measure = measure_of(size);
  require_room(input, measure);
  const std::vector<std::string> dropouts =
      full ? std::vector<std::string>{""} : std::vector<std::string>{"0", "0.05"};
  for (const std::string& dropout : dropouts) {
    const std::string with = full ? "" : ", dropout " + dropout;
    log.begin(describe(measure, full) + with);
    MadeRun made = run_of(input, measure, (full ? "full" : "speed") + dropout, 12, full);
    if (!full) made.words.insert(made.words.end(), {"--lora_dropout", dropout});
    const Measured found = train_and_measure(input, made);
    log.fact("tokens a second" + with, static_cast<double>(measure.rows * measure.tokens) / found.seconds);
    log.fact("seconds a step" + with, found.seconds);
    log.fact("reserved by the allocator, at most" + with, base::gigabytes(found.reserved));
    // Of random numbers: near the logarithm of the vocabulary.
    if (!(found.loss > 1 && std::isfinite(found.loss))) log.fail("a loss of " + std::to_string(found.loss));
  }
}

void measure_decoding(const StageInput& input, StageLog& log, ModelSize size) {
  const Measure measure = measure_of(size);
  require_room(input, measure);
  const auto source = model::open_weights(make_model(input.scratch / measure.name, measure.shape));
  model::CausalLm model(*source, {.linear = at::kBFloat16, .residual = at::kFloat}, model::Storage::kPacked,
                        {}, input.device);
  fill(model);
  model.join_linears();
  for (const std::int64_t batch : {1, 8, 64, 256}) {
    const std::string name = std::to_string(batch) + (batch == 1 ? " sequence" : " sequences");
    log.begin("decoding, " + name);
    std::vector<std::vector<std::int32_t>> prompts;
    for (std::int64_t i = 0; i < batch; ++i) prompts.emplace_back(64, static_cast<std::int32_t>(3 + i % 200));
    const auto seconds = [&](std::int64_t tokens) {
      rollout::GenerateOptions options;
      options.batch_size = batch;
      options.max_new_tokens = tokens;
      options.sampler.temperature = 1;
      const auto start = base::Clock::now();
      rollout::generate(model, prompts, options);
      return base::seconds_since(start);
    };
    seconds(8);
    const double few = seconds(8), more = seconds(72);
    log.fact("tokens a second, " + name, static_cast<double>(64 * batch) / (more - few));
  }
}

}  // namespace hone::commands
