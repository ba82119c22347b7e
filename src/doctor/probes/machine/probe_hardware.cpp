// Probe P11 (docs/design.md): every GEMM and attention shape of the run in a child process.
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/process/instruction_level.h"
#include "base/process/signal_names.h"
#include "data/forms/preferences.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/machine/device_machine.h"
#include "doctor/probes/machine/hardware_shapes.h"
#include "doctor/probes/machine/kernel_child.h"
#include "doctor/probes/probe_state.h"
#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"
#include "train/batches/rollout_source.h"
#include "train/facts/machine.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

namespace {

using base::Json;
using base::Level;

// multiplications of one product, at most, so that a probe stays below a second
constexpr double kProductWork = 2e10;
constexpr std::int64_t kMaxTokens = 2048;  // of one attention
constexpr int kMaxFaults = 4;              // then the rest is not tried

struct Sizes {
  std::int64_t tokens = 0, scored = 0, segment = 0;  // of the largest training pass
  std::int64_t sequences = 0, prompt = 0;            // of sampling; 0: none
  std::int64_t keys = 0;
};

Sizes sizes_of_pairs(const config::Plan& plan, const data::Records& pairs, bool is_fused) {
  const bool share = plan.share_prompt && is_fused;
  Sizes out;
  pairs.for_each([&](const data::RecordView& record) {
    const data::SequencePair pair = data::sides_of(record);
    const auto scored = static_cast<std::int64_t>(pair.first.scored.size() + pair.second.scored.size());
    out.tokens = std::max(out.tokens, pair.tokens(share));
    out.scored = std::max(out.scored, scored);
    out.segment = std::max({out.segment, pair.first.tokens(), pair.second.tokens()});
    if (share) out.prompt = std::max(out.prompt, static_cast<std::int64_t>(pair.first.context.size()));
  });
  out.tokens *= plan.per_device_train_batch_size;
  out.scored *= plan.per_device_train_batch_size;
  return out;
}

Sizes sizes_of(const train::RunView& run) {
  const config::Plan& plan = run.plan;
  if (const auto* data = run.examples()) {
    const train::LongestBatch longest = train::longest_batch(*data, plan.per_device_train_batch_size);
    return {.tokens = longest.tokens, .scored = longest.scored, .segment = longest.segment};
  }
  if (const auto* pairs = run.pairs())
    return sizes_of_pairs(plan, pairs->records, run.start.memory.fused_layer);
  const auto* policy = std::get_if<train::PolicyStartFacts>(&run.start.method);
  const std::int64_t prompt = policy != nullptr ? policy->longest_prompt : 1;
  const std::int64_t batch = plan.per_device_train_batch_size, length = plan.policy.max_completion_length;
  Sizes out = {.tokens = batch * (prompt + length), .scored = batch * length, .segment = prompt + length};
  if (plan.share_prompt && run.start.memory.fused_layer) {
    const std::int64_t group = std::max<std::int64_t>(1, plan.policy.num_generations);
    out.tokens = (batch + group - 1) / group * prompt + batch * length;
    out.prompt = prompt;
  }
  if (!plan.policy.replay.empty()) return out;
  out.sequences = plan.policy.generation_batch_size;
  out.keys = prompt + length;
  return out;
}

std::int64_t cut(std::int64_t rows, std::int64_t in, std::int64_t out) {
  const auto most = static_cast<std::int64_t>(kProductWork / static_cast<double>(in * out));
  return std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(16, most));
}

// What this machine and this build are: whatever a kernel's result may depend on besides its shape.
std::string describe_machine(const base::fs::path& program, std::int64_t threads, at::Device device) {
  std::string processor = "unknown";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    processor = line.substr(std::min(line.size(), line.find(':') + 2));
    break;
  }
  std::string out = processor + ", " + base::name_of(base::instruction_level()) + ", " +
                    std::to_string(threads) + " threads, libtorch " + TORCH_VERSION;
  if (const std::string told = describe_device(device); !told.empty()) out += ", " + told;
  // The build itself: its kernels are in this file.
  for (const base::fs::path& part : {program, program.parent_path() / "libhone_core.so"}) {
    std::error_code none;
    const auto size = base::fs::file_size(part, none);
    if (none) continue;
    const auto time = base::fs::last_write_time(part, none).time_since_epoch().count();
    out += ", " + part.filename().string() + " " + std::to_string(size) + " " + std::to_string(time);
  }
  return out;
}

// Shapes that were right on this machine before. A file that cannot be read is no file.
class Cache {
 public:
  Cache(const base::fs::path& folder, std::string machine) : machine_(std::move(machine)) {
    if (folder.empty()) return;
    path_ = folder / ("kernels-" + std::to_string(base::hash64(machine_)) + ".json");
    std::error_code none;
    if (!base::fs::exists(path_, none)) return;
    try {
      const Json json = Json::parse(base::read_text(path_), nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || json.value("machine", Json()) != machine_ || !json.contains("right")) return;
      for (const auto& [name, error] : json.at("right").items()) {
        if (error.is_number()) right_[name] = error.get<double>();
      }
    } catch (const base::Error&) {
      right_.clear();
    }
  }
  const std::map<std::string, double>& right() const { return right_; }
  void add(const std::string& shape, double error) {
    right_[shape] = error;
    changed_ = true;
  }
  void write() const {
    if (path_.empty() || !changed_) return;
    std::error_code none;
    base::fs::create_directories(path_.parent_path(), none);
    Json right = Json::object();
    for (const auto& [name, error] : right_) right[name] = error;
    try {
      base::write_file_atomic(path_, base::dump_json({{"machine", machine_}, {"right", right}}, 1));
    } catch (const base::Error&) {  // a full disk or a folder without rights: it is asked again next time
    }
  }

 private:
  std::string machine_;
  base::fs::path path_;
  std::map<std::string, double> right_;
  bool changed_ = false;
};

struct Answer {
  enum class Kind { kNone, kRight, kWrong, kKilled, kLate, kFailed, kNoRoom } kind = Kind::kNone;
  double error = 0, bound = 0;
  double found = std::nan(""), expected = std::nan("");  // where the error is; NaN: not told
  int signal = 0, status = 0;

  // What another try may answer otherwise.
  bool is_chance() const { return kind == Kind::kLate || (kind == Kind::kKilled && signal == SIGKILL); }
};

class Prober {
 public:
  Prober(std::int64_t threads, at::Device device, const ExamOptions& options,
         std::chrono::milliseconds patience)
      : threads_(threads), device_(device), options_(options), patience_(patience) {}

  // An answer a shape; kNone: not reached.
  std::vector<Answer> ask(const std::vector<KernelShape>& shapes) {
    std::vector<Answer> out(shapes.size());
    int faults = 0;
    for (std::size_t from = 0; from < shapes.size() && faults < kMaxFaults;) {
      const std::size_t next = one_child(shapes, from, out);
      for (std::size_t i = from; i < std::min(next, out.size()); ++i)
        faults += out[i].kind != Answer::Kind::kRight && out[i].kind != Answer::Kind::kNoRoom ? 1 : 0;
      if (next == from) break;  // it did not even begin
      from = next;
    }
    return out;
  }
  const ChildEnd& last_end() const { return end_; }
  at::Device device() const { return device_; }

 private:
  // The first shape that this child did not answer for.
  std::size_t one_child(const std::vector<KernelShape>& shapes, std::size_t from, std::vector<Answer>& out) {
    Json list = Json::array();
    for (std::size_t i = from; i < shapes.size(); ++i) list.push_back(shapes[i].to_json());
    const std::string input =
        base::dump_json({{"threads", threads_}, {"device", device_.str()}, {"shapes", list}});
    std::size_t begun = shapes.size(), next = from;
    end_ = run_child(options_.program, {"probe-hardware"}, input, patience_, [&](const std::string& line) {
      const Json said = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!said.is_object()) return;
      const auto index = [&](const char* name) {
        const Json value = said.value(name, Json());
        const auto at = value.is_number_integer() ? value.get<std::int64_t>() : -1;
        return at < 0 ? shapes.size() : from + static_cast<std::size_t>(at);
      };
      if (const std::size_t at = index("begin"); at < shapes.size()) begun = at;
      const std::size_t done = index("done");
      if (done >= shapes.size()) return;
      const Json error = said.value("error", Json()), bound = said.value("bound", Json());
      Answer& answer = out[done];
      next = done + 1;
      begun = shapes.size();
      if (said.contains("room")) {
        answer.kind = Answer::Kind::kNoRoom;
        return;
      }
      answer.bound = bound.is_number() ? bound.get<double>() : 0;
      // JSON has no infinity: null is what was not finite.
      answer.error = error.is_number() ? error.get<double>() : std::nan("");
      for (auto [name, value] : {std::pair("found", &answer.found), {"expected", &answer.expected}})
        if (const Json one = said.value(name, Json()); one.is_number()) *value = one.get<double>();
      answer.kind = answer.error <= answer.bound ? Answer::Kind::kRight : Answer::Kind::kWrong;
    });
    if (begun >= shapes.size() || next >= shapes.size()) return next;
    Answer& answer = out[begun];
    answer.signal = end_.signal;
    answer.status = end_.status;
    answer.kind = end_.late          ? Answer::Kind::kLate
                  : end_.signal != 0 ? Answer::Kind::kKilled
                                     : Answer::Kind::kFailed;
    return begun + 1;
  }

  std::int64_t threads_;
  at::Device device_;
  const ExamOptions& options_;
  std::chrono::milliseconds patience_;
  ChildEnd end_;
};

std::string describe_end(const Answer& answer, std::chrono::milliseconds patience) {
  switch (answer.kind) {
    case Answer::Kind::kLate:
      return "no answer within " + number(static_cast<double>(patience.count()) / 1000) + " s";
    case Answer::Kind::kKilled:
      return "killed by " + base::signal_text(answer.signal) +
             (answer.signal == SIGKILL ? " (by somebody, or out of memory)" : "");
    case Answer::Kind::kWrong:
      return std::isnan(answer.error)
                 ? "its results are not finite"
                 : "off by " + number(answer.error) + " of the largest value, bound " + number(answer.bound) +
                       (std::isnan(answer.found) || std::isnan(answer.expected)
                            ? ""
                            : ": " + number(answer.found) + " instead of " + number(answer.expected));
    default:
      return "ended with status " + std::to_string(answer.status);
  }
}

// "cuda:0, NVIDIA H100 80GB HBM3, 85.0 GB"
std::string describe_card(at::Device device) {
  if (!device.is_cuda()) return device.str();
  return device.str() + ", " + ops::describe(ops::load_cuda().driver, device.index());
}

std::string known_crash_on(at::Device device) {
  if (!device.is_cuda()) return "";
  const auto index = static_cast<std::size_t>(device.index());
  return known_crash(ops::load_cuda().driver.cards.at(index).name, cublas_version());
}

// The same shape on other paths, and which options choose them.
struct Other {
  KernelShape shape;
  std::string name, fix;
};

std::vector<Other> others_of(const KernelShape& shape) {
  std::vector<Other> out;
  KernelShape plain = shape;
  plain.autograd = true;
  plain.packed = false;
  if (!shape.autograd && shape.kind != "cached")
    out.push_back({plain, "libtorch's kernels", "layer_form: plain"});
  KernelShape wide = shape;
  wide.bf16 = false;
  wide.packed = false;
  if (shape.bf16) out.push_back({wide, "fp32", "bf16: false with dtype: float32"});
  KernelShape full = shape;
  full.quantized.clear();
  if (!shape.quantized.empty()) out.push_back({full, "not quantized", "load_in_4bit: false"});
  return out;
}

base::Verdict verdict_of(const KernelShape& shape, const Answer& answer, Prober& prober,
                         std::chrono::milliseconds patience) {
  const bool wrong = answer.kind == Answer::Kind::kWrong;
  const std::string thing = shape.is_gemm() ? " matrix product" : " attention";
  base::Verdict out = {.code = wrong ? "NUM-04" : "NUM-07", .level = Level::kFail};
  const std::string how = answer.kind == Answer::Kind::kLate ? "does not finish on"
                          : wrong                            ? "is wrong on"
                                                             : "crashes";
  out.what = (shape.bf16 ? "bf16" : "fp32") + thing + " " + how + " this machine";
  if (answer.kind == Answer::Kind::kKilled) out.what += " (" + base::signal_text(answer.signal) + ")";
  out.evidence = "child probe " + shape.describe() + ": " + describe_end(answer, patience);
  std::string fixes;
  for (const Other& other : others_of(shape)) {
    const bool works = prober.ask({other.shape}).front().kind == Answer::Kind::kRight;
    out.evidence += "; " + other.name + ", same shape: " + (works ? "ok" : "not ok");
    if (works) fixes += (fixes.empty() ? "" : ", or ") + other.fix;
  }
  const bool host = ops::is_host(prober.device());
  out.cause = host ? "a kernel or library that does not support this processor correctly"
                   : "a kernel, a library or a driver that does not support this card correctly";
  if (!host) out.evidence += "; on " + describe_card(prober.device());
  if (const std::string known = known_crash_on(prober.device()); !wrong && !known.empty()) out.cause = known;
  const Excluded excluded =
      Excluded().add("learning rate, warm-up, clipping or accumulation", "the probe uses none of them");
  out.not_this = excluded.text();
  out.fix = fixes.empty() ? report_fix(excluded, host ? "another machine" : "device: cpu") : fixes;
  out.cost = wrong ? "a run with wrong results"
                   : "the run would crash; this process is safe, since probes run in a child";
  return out;
}

}  // namespace

std::vector<KernelShape> kernel_shapes(const train::RunView& run) {
  const model::CausalLm& model = *run.model;
  const model::ModelConfig& config = model.config();
  const Sizes sizes = sizes_of(run);
  const KernelShape common = {.bf16 = model.dtypes().linear == at::kBFloat16,
                              .autograd = !run.start.memory.fused_layer,
                              .packed = model.packed()};
  std::vector<KernelShape> out;
  std::set<std::string> seen;
  const auto add = [&](const KernelShape& shape) {
    if (seen.insert(shape.describe()).second) out.push_back(shape);
  };
  for (const ops::Linear* linear : model.linears()) {
    KernelShape shape = common;
    shape.kind = "gemm";
    shape.in = linear->weight.in();
    shape.out = linear->weight.out();
    shape.rank = linear->lora ? linear->lora->a.size(0) : 0;
    shape.bias = linear->bias.defined();
    shape.packed = linear->weight.is_packed();
    if (linear->weight.is_quantized()) shape.quantized = ops::describe(linear->weight.quantized().scheme);
    shape.m = cut(sizes.tokens, shape.in, shape.out);
    add(shape);
    if (sizes.sequences == 0) continue;
    shape.kind = "decode";
    shape.autograd = false;  // sampling has one form
    for (const std::int64_t rows : {std::int64_t{1}, sizes.sequences}) {
      shape.m = cut(rows, shape.in, shape.out);
      add(shape);
    }
  }
  KernelShape head = common;
  head.kind = "head";
  head.in = config.hidden_size;
  head.out = config.vocab_size;
  for (const std::int64_t rows : {sizes.scored, sizes.sequences}) {
    if (rows == 0) continue;
    head.m = cut(rows, head.in, head.out);
    add(head);
  }
  KernelShape attention = common;
  attention.kind = "attention";
  attention.packed = false;
  attention.heads = config.num_attention_heads;
  KernelShape cached = attention;
  cached.kind = "cached";
  cached.autograd = false;
  cached.segment = std::min(sizes.keys, kMaxTokens);
  attention.segment = std::min(sizes.segment, kMaxTokens);
  attention.prefix = std::min(sizes.prompt, kMaxTokens);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {  // of every width of heads once
    const model::LayerAttention one = config.attention_of(i);
    for (KernelShape* shape : {&attention, &cached}) {
      shape->kv_heads = one.kv_heads;
      shape->head_dim = one.head_dim;
      if (shape == &attention || sizes.sequences > 0) add(*shape);
    }
  }
  return out;
}

Verdicts examine_hardware(const std::vector<KernelShape>& shapes, std::int64_t threads,
                          const ExamOptions& options, std::chrono::milliseconds patience, at::Device device) {
  if (options.program.empty()) {
    return {{.code = "NUM-07", .level = Level::kNote, .what = "kernels were not tested in a child process"}};
  }
  Cache cache(options.cache_dir, describe_machine(options.program, threads, device));
  std::vector<KernelShape> unknown;
  double worst = 0;
  for (const KernelShape& shape : shapes) {
    const auto known = cache.right().find(shape.describe());
    if (known == cache.right().end())
      unknown.push_back(shape);
    else
      worst = std::max(worst, known->second);
  }
  Prober prober(threads, device, options, patience);
  std::vector<Answer> answers = prober.ask(unknown);
  const ChildEnd end = prober.last_end();
  // A busy machine, or somebody who ends processes, is no kernel.
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    if (answers[i].is_chance()) answers[i] = prober.ask({unknown[i]}).front();
  }
  Verdicts out;
  std::size_t unanswered = 0, no_room = 0;
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    if (answers[i].kind == Answer::Kind::kRight) {
      cache.add(unknown[i].describe(), answers[i].error);
      worst = std::max(worst, answers[i].error);
    } else if (answers[i].kind == Answer::Kind::kNone) {
      unanswered += 1;
    } else if (answers[i].kind == Answer::Kind::kNoRoom) {
      no_room += 1;
    } else {
      out.push_back(verdict_of(unknown[i], answers[i], prober, patience));
    }
  }
  cache.write();
  if (unanswered == unknown.size() && unanswered > 0 && out.empty()) {
    return {{.code = "NUM-07",
             .level = Level::kWarn,
             .what = "kernels could not be tested in a child process",
             .evidence = options.program.string() +
                         (!end.started      ? " does not start"
                          : end.late        ? " said nothing"
                          : end.signal != 0 ? " was killed by " + base::signal_text(end.signal)
                                            : " ended with status " + std::to_string(end.status)),
             .cause = "the program was moved, or memory is low",
             .fix = "run ./quickstart again",
             .cost = "a kernel that crashes here would end the run"}};
  }
  const std::string count = std::to_string(shapes.size()) + " kernel shapes";
  if (out.empty() && no_room > 0) {
    return {{.code = "NUM-07",
             .level = Level::kNote,
             .what = std::to_string(no_room) + " of " + count + " were not tested",
             .evidence = "the child process that tests them has no memory for them beside the run",
             .fix = "nothing: hone doctor tests them where more memory is free, and remembers it"}};
  }
  if (out.empty()) {
    return {{.code = "NUM-07",
             .what = count + " run on this machine, within tolerance",
             .evidence = std::to_string(shapes.size() - unknown.size()) +
                         " tested earlier; largest difference from fp32 " + number(worst) +
                         " of the largest value"}};
  }
  if (unanswered > 0)
    out.back().evidence += "; " + std::to_string(unanswered) + " of " + count + " were not tested after that";
  return out;
}

Verdicts probe_hardware(const train::RunView& run, const ExamOptions& options) {
  return examine_hardware(kernel_shapes(run), train::threads_or_default(run.plan.threads), options,
                          std::chrono::seconds(60), run.model->device());
}

}  // namespace hone::doctor
