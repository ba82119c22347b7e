#include "serve/tinker/store.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/files/staging.h"
#include "serve/tinker/fields.h"

namespace hone::serve {

using base::Json;
namespace fs = base::fs;

namespace {

constexpr const char* kRunFile = "run.json";
constexpr const char* kSavedFile = "saved.json";
constexpr std::int64_t kLatest = std::int64_t{1} << 40;  // seconds: no time is later

Json to_json(const RunFacts& run) {
  return {{"training_run_id", run.id},         {"base_model", run.base_model},
          {"lora_rank", run.lora.rank},        {"lora_seed", run.lora.seed},
          {"train_attn", run.lora.attention},  {"train_mlp", run.lora.mlp},
          {"train_unembed", run.lora.unembed}, {"user_metadata", run.user_metadata}};
}

RunFacts run_from(const Fields& fields) {
  RunFacts run;
  run.id = fields.text("training_run_id");
  run.base_model = fields.text("base_model");
  run.lora.rank = fields.whole("lora_rank", 1);
  run.lora.seed = static_cast<std::uint64_t>(
      fields.whole_or("lora_seed", 0, 0, std::numeric_limits<std::int64_t>::max()));
  run.lora.attention = fields.flag_or("train_attn", true);
  run.lora.mlp = fields.flag_or("train_mlp", true);
  run.lora.unembed = fields.flag_or("train_unembed", true);
  run.user_metadata = fields.texts("user_metadata");
  return run;
}

Json to_json(const SavedFacts& facts) {
  Json out = {{"tinker_path", facts.path.text()},
              {"time", facts.time},
              {"steps", facts.steps},
              {"run", to_json(facts.run)},
              {"user_metadata", facts.user_metadata}};
  out["expires_at"] = facts.expires_at ? Json(*facts.expires_at) : Json(nullptr);
  return out;
}

bool has_expired(const SavedFacts& facts) {
  return facts.expires_at && *facts.expires_at <= now_seconds();
}

std::int64_t bytes_in(const fs::path& folder) {
  std::int64_t out = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto size = entry.file_size(error);
    if (!error) out += static_cast<std::int64_t>(size);
  }
  return out;
}

// Names of the folders in `folder` that are a client's names.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!fs::is_directory(entry.symlink_status(error))) continue;
    if (auto name = name_of_folder(entry.path().filename().string())) out.push_back(*std::move(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string iso_time(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::int64_t now_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool Store::exists(const TinkerPath& path) const {
  try {
    read(path);
    return true;
  } catch (const base::UserError&) {
    return base::exists(folder_of(root_, path));
  }
}

void Store::save(const SavedFacts& facts, bool overwrite,
                 const std::function<void(const fs::path&)>& write) const {
  if (!overwrite && exists(facts.path)) {
    throw base::UserError({.where = facts.path.text(),
                           .expected = "a name that is not taken",
                           .found = "weights that were saved there",
                           .cause = {},
                           .fix = "take another name, or pass overwrite=True"});
  }
  make_parents(root_, facts.path);
  const fs::path run_file = root_ / folder_name(facts.path.run) / kRunFile;
  if (!base::exists(run_file))
    base::write_file_atomic(run_file, base::dump_json(to_json(facts.run), 2) + "\n");
  base::StagedFolder staged(folder_of(root_, facts.path));
  write(staged.path());
  base::write_file_atomic(staged.path() / kSavedFile, base::dump_json(to_json(facts), 2) + "\n");
  staged.commit();
}

SavedFacts Store::read(const TinkerPath& path) const {
  const fs::path folder = existing_folder(root_, path);
  const fs::path file = folder / kSavedFile;
  const Fields fields(base::parse_json(base::read_text(file), file.string()), file.string());
  SavedFacts out;
  out.path = path;
  out.time = fields.whole("time", 0, kLatest);
  if (fields.has("expires_at")) out.expires_at = fields.whole("expires_at", 0, kLatest);
  out.steps = fields.whole("steps");
  out.user_metadata = fields.texts("user_metadata");
  const auto run = fields.maybe_object("run");
  if (!run) fields.fail("run", "an object", "nothing");
  out.run = run_from(*run);
  out.bytes = bytes_in(folder);
  if (!has_expired(out)) return out;
  throw base::UserError({.where = path.text(),
                         .expected = "weights that were saved",
                         .found = "weights whose ttl_seconds are over, at " + iso_time(*out.expires_at),
                         .cause = {},
                         .fix = {}});
}

void Store::remove(const TinkerPath& path) const {
  base::remove_whole_folder(existing_folder(root_, path));
}

void Store::set_expiry(const TinkerPath& path, std::optional<std::int64_t> expires_at) const {
  SavedFacts facts = read(path);
  facts.expires_at = expires_at;
  base::write_file_atomic(existing_folder(root_, path) / kSavedFile,
                          base::dump_json(to_json(facts), 2) + "\n");
}

std::optional<RunFacts> Store::run(const std::string& id) const {
  if (!is_path_name(id)) return std::nullopt;
  const fs::path folder = root_ / folder_name(id), file = folder / kRunFile;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error)) ||
      !fs::is_regular_file(fs::symlink_status(file, error)))
    return std::nullopt;
  return run_from(Fields(base::parse_json(base::read_text(file), file.string()), file.string()));
}

std::vector<std::string> Store::runs() const {
  return names_in(root_);
}

std::vector<SavedFacts> Store::saved(const std::string& run) const {
  std::vector<SavedFacts> out;
  if (!is_path_name(run)) return out;
  for (const WeightsKind kind : {WeightsKind::kTraining, WeightsKind::kSampler}) {
    for (const std::string& name : names_in(root_ / folder_name(run) / word_of(kind))) {
      try {
        out.push_back(read({.run = run, .kind = kind, .name = name}));
      } catch (const base::UserError&) {
        continue;  // expired, or not the server's: it is not listed
      }
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SavedFacts& a, const SavedFacts& b) { return a.time < b.time; });
  return out;
}

}  // namespace hone::serve
