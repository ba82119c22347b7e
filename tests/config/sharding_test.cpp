// Files of DeepSpeed, accelerate and FSDP: each key of the tables, what contradicts the run, files as people have them.
#include "config/sharding/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/files/file.h"
#include "base/json_tools.h"
#include "config/helpers.h"
#include "config/sharding/sharding_rows.h"
#include "config/write_plan.h"

namespace hone::config {
namespace sharding_test {

using base::Json;

std::string fixture(const std::string& name) {
  return std::string(HONE_FIXTURES) + "/config/sharding/" + name;
}

std::string note_with(const Plan& plan, const std::string& text) {
  for (const std::string& note : plan.notes) {
    if (note.find(text) != std::string::npos) return note;
  }
  return {};
}

// {"zero_optimization": {"stage": value}} of "zero_optimization.stage"
Json nested(const std::string& under, const std::string& name, const Json& value) {
  Json out = {{name, value}};
  for (std::string rest = under; !rest.empty();) {
    const std::size_t dot = rest.rfind('.');
    out = Json{{dot == std::string::npos ? rest : rest.substr(dot + 1), out}};
    rest = dot == std::string::npos ? "" : rest.substr(0, dot);
  }
  return out;
}

class Sharding : public ConfigTest {
 protected:
  Plan with(const std::string& option, const Json& value, std::vector<std::string> more = {},
            std::int64_t ranks = 1) const {
    return parse_run(Method::kSft, words(option, value, std::move(more)), ranks);
  }
  std::string error_with(const std::string& option, const Json& value, std::vector<std::string> more = {},
                         std::int64_t ranks = 1) const {
    return error_of([&] { with(option, value, std::move(more), ranks); });
  }
  Plan deepspeed(const Json& value, std::vector<std::string> more = {}, std::int64_t ranks = 1) const {
    return with("deepspeed", value, std::move(more), ranks);
  }
  std::string deepspeed_error(const Json& value, std::vector<std::string> more = {},
                              std::int64_t ranks = 1) const {
    return error_with("deepspeed", value, std::move(more), ranks);
  }

 private:
  std::vector<std::string> words(const std::string& option, const Json& value,
                                 std::vector<std::string> more) const {
    more.push_back("--" + option);
    more.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    if (option == "fsdp_config") more.insert(more.end(), {"--fsdp", "true"});
    return arguments(more);
  }
};

// The option whose mapping has a table's keys, by the table's place.
const char* option_of(std::size_t table) {
  constexpr std::array<const char*, 3> kOptions = {"deepspeed", "accelerate_config", "fsdp_config"};
  return kOptions.at(table);
}

TEST(ShardingRows, ATableHasEachKeyOnce) {
  for (const ShardingTable* table : sharding_tables()) {
    std::set<std::string> seen;
    for (const ShardingRow& row : table->rows) {
      EXPECT_TRUE(row.fate == KeyFate::kSection || !row.text.empty()) << row.names;
      for (const std::string& under :
           row.under.empty() ? std::vector<std::string>{""} : split_words(row.under)) {
        for (const std::string& name : split_words(row.names)) {
          EXPECT_TRUE(seen.insert(under + "/" + name).second) << under << " " << name;
          EXPECT_EQ(table->find(under, name), &row) << name;
        }
      }
    }
  }
}

TEST_F(Sharding, EachNotedKeyIsNamedWithItsReason) {
  int count = 0;
  for (std::size_t at = 0; at < sharding_tables().size(); ++at) {
    for (const ShardingRow& row : sharding_tables().at(at)->rows) {
      if (row.fate != KeyFate::kNoted) continue;
      const std::string under = row.under.empty() ? "" : split_words(row.under).front();
      for (const std::string& name : split_words(row.names)) {
        const std::string key = under.empty() ? name : under + "." + name;
        const Plan plan = with(option_of(at), nested(under, name, 5));
        EXPECT_NE(note_with(plan, key + ": " + std::string(row.text)), "") << key;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 130);
}

TEST_F(Sharding, EachRefusedKeyIsRefusedByNameUnlessOff) {
  int count = 0;
  for (std::size_t at = 0; at < sharding_tables().size(); ++at) {
    for (const ShardingRow& row : sharding_tables().at(at)->rows) {
      if (row.fate != KeyFate::kRefused) continue;
      const std::string under = row.under.empty() ? "" : split_words(row.under).front();
      for (const std::string& name : split_words(row.names)) {
        const std::string key = under.empty() ? name : under + "." + name;
        const Json wrong = row.fine == "true" ? Json(false) : Json("other");
        const std::string text = error_with(option_of(at), nested(under, name, wrong));
        EXPECT_NE(text.find("expected no " + key), std::string::npos) << text;
        EXPECT_NE(text.find(std::string(row.text)), std::string::npos) << text;
        const Json right =
            row.fine.empty() ? Json{{"enabled", false}} : Json::parse("\"" + std::string(row.fine) + "\"");
        EXPECT_NO_THROW(with(option_of(at), nested(under, name, right))) << key;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 30);
}

TEST_F(Sharding, AKeyThatIsAnOptionSetsItOrHasToBeTheSame) {
  int count = 0;
  for (std::size_t at = 0; at < 2; ++at) {
    for (const ShardingRow& row : sharding_tables().at(at)->rows) {
      if (row.fate != KeyFate::kOption || row.text == "fp16") continue;
      const bool flag = row.text == "bf16" || row.text == "dataloader_drop_last";
      const bool count_of = row.text == "per_device_train_batch_size" ||
                            row.text == "gradient_accumulation_steps" || row.text == "warmup_steps";
      const Json value = flag ? Json(true) : count_of ? Json(3) : Json(0.25);
      const Json other = flag ? Json(false) : count_of ? Json(4) : Json(0.5);
      for (const std::string& under :
           row.under.empty() ? std::vector<std::string>{""} : split_words(row.under)) {
        for (const std::string& name : split_words(row.names)) {
          const std::string option = "--" + std::string(row.text);
          const std::vector<std::string> same = {option, value.dump()};
          const Plan expected = run(same);
          EXPECT_EQ(with(option_of(at), nested(under, name, value)).resolved.size(),
                    expected.resolved.size() + 1);
          for (const auto& [key, text] : expected.resolved) {
            if (key != row.text) continue;
            const Plan plan = with(option_of(at), nested(under, name, value));
            EXPECT_NE(std::find(plan.resolved.begin(), plan.resolved.end(), std::pair(key, text)),
                      plan.resolved.end())
                << key << " " << text;
          }
          EXPECT_NO_THROW(with(option_of(at), nested(under, name, value), same));
          EXPECT_NO_THROW(with(option_of(at), nested(under, name, "auto"), same));
          const std::string text = error_with(option_of(at), nested(under, name, other), same);
          EXPECT_NE(text.find(fmt::format("expected one value of {}", row.text)), std::string::npos) << text;
          EXPECT_NE(text.find("write \"auto\""), std::string::npos) << text;
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 12);
}

TEST_F(Sharding, AConflictNamesBothValuesAndPlaces) {
  const std::string file =
      write("ds.json", R"({"gradient_clipping": 0.5, "zero_optimization": {"stage": 1}})");
  EXPECT_EQ(
      yaml_error("max_grad_norm: 1.0\ndeepspeed: " + file + "\n"),
      "[ds.json gradient_clipping] expected one value of max_grad_norm\n  found:  0.5 here, and "
      "max_grad_norm: 1.0 at run.yaml:4\n  likely: gradient_clipping is the option max_grad_norm\n  do:     "
      "write \"auto\" for gradient_clipping, or remove one of the two");
}

TEST_F(Sharding, AnUnknownKeyGetsItsNeighbor) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(deepspeed_error({{"gradient_cliping", 1}}),
           "'gradient_cliping'. Did you mean 'gradient_clipping'?");
  contains(deepspeed_error({{"zero_optimization", {{"stge", 1}}}}),
           "a key of zero_optimization in deepspeed\n  found:  'stge'. Did you mean 'stage'");
  contains(error_with("accelerate_config", {{"num_proceses", 1}}), "Did you mean 'num_processes'");
  contains(error_with("fsdp_config", {{"fsdp_stat_dict_type", 1}}), "Did you mean 'state_dict_type'");
  contains(error_with("fsdp", "ful_shard"), "Did you mean 'full_shard'");
  contains(deepspeed_error({{"gradient_cliping", 1}, {"stepsperprint", 1}}), "stepsperprint");  // all at once
}

TEST_F(Sharding, TheBatchIsThatOfAllRanks) {
  const Json told = {
      {"train_batch_size", 64}, {"train_micro_batch_size_per_gpu", 8}, {"gradient_accumulation_steps", 2}};
  EXPECT_NO_THROW(deepspeed(told, {}, 4));
  const std::string text = deepspeed_error(told);
  EXPECT_NE(
      text.find("expected train_batch_size 16: per_device_train_batch_size 8 x gradient_accumulation_steps 2 "
                "x ranks 1\n  found:  train_batch_size 64\n  likely: the file is for 4 ranks"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("hone launch --nproc 4 sft"), std::string::npos) << text;
  EXPECT_NO_THROW(deepspeed({{"train_batch_size", "auto"}}));
  EXPECT_NE(deepspeed_error({{"train_batch_size", 7}}).find("write \"auto\""), std::string::npos);
  EXPECT_NE(deepspeed_error({{"train_batch_size", "8"}}).find("a number"), std::string::npos);
}

TEST_F(Sharding, OptimizersAndSchedules) {
  const auto optimizer = [](const char* type) { return Json{{"optimizer", {{"type", type}}}}; };
  const auto scheduler = [](const char* type) { return Json{{"scheduler", {{"type", type}}}}; };
  EXPECT_EQ(deepspeed(optimizer("AdamW")).optim, run().optim);
  EXPECT_EQ(deepspeed(optimizer("Adam"), {"--optim", "adamw_bnb_8bit"}).optim,
            run({"--optim", "adamw_bnb_8bit"}).optim);
  EXPECT_EQ(deepspeed(optimizer("SGD")).optim, run({"--optim", "sgd"}).optim);
  EXPECT_EQ(deepspeed(optimizer("Adagrad")).optim, run({"--optim", "adagrad"}).optim);
  EXPECT_NE(deepspeed_error(optimizer("AdamW"), {"--optim", "sgd"}).find("optim: sgd at --optim"),
            std::string::npos);
  for (const char* other : {"OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Lamb", "Muon"})
    EXPECT_NE(deepspeed_error(optimizer(other)).find(other), std::string::npos);
  EXPECT_NE(deepspeed_error(optimizer("AdamV")).find("'AdamW'"), std::string::npos);
  const Plan betas = deepspeed({{"optimizer", {{"params", {{"betas", {0.8, 0.95}}}}}}});
  EXPECT_EQ(betas.adam_beta1, 0.8);
  EXPECT_EQ(betas.adam_beta2, 0.95);
  EXPECT_NE(deepspeed_error({{"optimizer", {{"params", {{"betas", {0.8}}}}}}}).find("two numbers"),
            std::string::npos);

  const Plan warm = deepspeed(scheduler("WarmupLR"));
  EXPECT_EQ(warm.lr_scheduler_type, Scheduler::kConstantWithWarmup);
  EXPECT_NE(note_with(warm, "warmup is logarithmic"), "");
  EXPECT_EQ(deepspeed(scheduler("WarmupDecayLR")).lr_scheduler_type, Scheduler::kLinear);
  EXPECT_NE(deepspeed_error(scheduler("WarmupDecayLR"), {"--lr_scheduler_type", "cosine"}).find("cosine at"),
            std::string::npos);
  EXPECT_NE(deepspeed_error(scheduler("WarmupCosineLR")).find("WarmupCosineLR"), std::string::npos);
  EXPECT_NE(deepspeed_error({{"scheduler", {{"params", {{"total_num_steps", 100}}}}}}).find("max_steps: 100"),
            std::string::npos);
  EXPECT_NO_THROW(
      deepspeed({{"scheduler", {{"params", {{"total_num_steps", 100}}}}}}, {"--max_steps", "100"}));
}

TEST_F(Sharding, PrecisionIsThatOfTheOptions) {
  EXPECT_NE(deepspeed_error({{"fp16", {{"enabled", true}}}}).find("NUM-03"), std::string::npos);
  EXPECT_EQ(deepspeed({{"fp16", {{"enabled", false}}}, {"bf16", {{"enabled", false}}}}).precision,
            Precision::kFloat32);
  EXPECT_EQ(deepspeed({{"fp16", {{"enabled", "auto"}, {"loss_scale", 0}}}}).precision, run().precision);
  const auto mixed = [](const char* word) { return Json{{"mixed_precision", word}}; };
  EXPECT_NE(note_with(with("accelerate_config", mixed("fp16")), "bf16 is true, and comes first"), "");
  EXPECT_NE(error_with("accelerate_config", mixed("fp16"), {"--bf16", "false"}).find("NUM-03"),
            std::string::npos);
  EXPECT_NE(error_with("accelerate_config", mixed("bf16"), {"--bf16", "false"}).find("mixed_precision: bf16"),
            std::string::npos);
  EXPECT_NO_THROW(with("accelerate_config", mixed("no"), {"--bf16", "false"}));
  EXPECT_NE(error_with("accelerate_config", mixed("half")).find("no, bf16, fp16 or fp8"), std::string::npos);
}

TEST_F(Sharding, AStageSaysWhatEachRankHas) {
  const auto stage = [](int number) { return Json{{"zero_optimization", {{"stage", number}}}}; };
  const auto said = [&](int number, const char* peft) {
    return note_with(deepspeed(stage(number), {"--use_peft", peft}), fmt::format("stage {}", number));
  };
  EXPECT_NE(said(0, "true").find("plain data parallelism"), std::string::npos);
  EXPECT_NE(said(1, "true").find("save 8 x (W - 1) / W"), std::string::npos);
  EXPECT_NE(said(2, "true").find("save 12 x (W - 1) / W"), std::string::npos);
  EXPECT_NE(said(3, "true").find("over the network"), std::string::npos);
  EXPECT_NE(said(1, "false").find("zero_stage 1: the optimizer's state is divided"), std::string::npos);
  EXPECT_NE(said(2, "false").find("and the gradients are divided"), std::string::npos);
  EXPECT_NE(said(3, "false").find("the layers' parameters are divided"), std::string::npos);
  EXPECT_NE(said(3, "false").find("this run has one"), std::string::npos);
  const auto full = [&](const Json& file, std::vector<std::string> more = {}, std::int64_t ranks = 2) {
    more.insert(more.end(), {"--use_peft", "false"});
    return deepspeed(file, more, ranks);
  };
  EXPECT_EQ(deepspeed(stage(3), {}, 2).zero_stage, 0) << "an adapter is not divided";
  EXPECT_EQ(full(stage(3)).zero_stage, 3);
  EXPECT_EQ(full(stage(3), {"--zero_stage", "1"}).zero_stage, 1);
  EXPECT_NE(note_with(full(stage(3), {"--zero_stage", "1"}), "the run's zero_stage 1 counts"), "");
  EXPECT_EQ(full(stage(2), {"--optim", "adafactor"}).zero_stage, 0);
  EXPECT_EQ(full(stage(2), {"--layer_form", "plain"}).zero_stage, 1);
  EXPECT_NE(note_with(full(stage(2), {"--layer_form", "plain"}), "zero_stage 2: 1 here"), "");
  EXPECT_NE(deepspeed_error(stage(4)).find("stage 0, 1, 2 or 3"), std::string::npos);
  const auto strategy = [&](const Json& word) {
    return with("fsdp_config", {{"fsdp_sharding_strategy", word}}).notes;
  };
  const auto has = [](const std::vector<std::string>& notes, const std::string& text) {
    return std::any_of(notes.begin(), notes.end(),
                       [&](const std::string& one) { return one.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(has(strategy("SHARD_GRAD_OP"), "save 12 x"));
  EXPECT_TRUE(has(strategy("FULL_SHARD"), "save 16 x"));
  EXPECT_TRUE(has(strategy("NO_SHARD"), "plain data parallelism"));
  EXPECT_NE(error_with("fsdp_config", {{"fsdp_sharding_strategy", "FULL"}}).find("'full'"),
            std::string::npos);
}

TEST_F(Sharding, OffloadIsAFolder) {
  const auto with_device = [](const Json& device, const Json& path) {
    return Json{{"zero_optimization",
                 {{"stage", 2}, {"offload_optimizer", {{"device", device}, {"nvme_path", path}}}}}};
  };
  const std::vector<std::string> full = {"--use_peft", "false"};
  EXPECT_EQ(deepspeed(with_device("nvme", "/tmp/disk"), full).offload_folder, "/tmp/disk");
  EXPECT_EQ(deepspeed(with_device("nvme", "/tmp/disk")).offload_folder, "") << "an adapter's state stays";
  EXPECT_EQ(deepspeed(with_device("cpu", nullptr), full).offload_folder, "");
  EXPECT_NE(note_with(deepspeed(with_device("cpu", nullptr), full), "offload_optimizer cpu"), "");
  EXPECT_NE(deepspeed_error(with_device("nvme", nullptr), full).find("nvme_path"), std::string::npos);
  EXPECT_NE(deepspeed_error(with_device("disk", "/tmp"), full).find("cpu, nvme or none"), std::string::npos);
  const Json accelerate = {
      {"distributed_type", "DEEPSPEED"},
      {"deepspeed_config",
       {{"zero_stage", 3}, {"offload_optimizer_device", "nvme"}, {"offload_optimizer_nvme_path", "/d"}}}};
  const Plan plan = with("accelerate_config", accelerate, full);
  EXPECT_EQ(plan.offload_folder, "/d");
  EXPECT_EQ(plan.zero_stage, 3);
  EXPECT_EQ(with("accelerate_config", accelerate, {"--use_peft", "false", "--optim", "adamw_bnb_8bit"})
                .offload_folder,
            "");
}

TEST_F(Sharding, ProcessesAreTheLaunchers) {
  const Plan one = with("accelerate_config", {{"num_processes", 8}});
  EXPECT_NE(note_with(one, "hone launch --nproc 8 sft"), "");
  EXPECT_EQ(note_with(with("accelerate_config", {{"num_processes", 4}}, {}, 4), "num_processes"), "");
  EXPECT_NE(note_with(with("accelerate_config", {{"num_processes", 8}}, {}, 2), "has started 2 ranks"), "");
  EXPECT_NE(error_with("accelerate_config", {{"distributed_type", "MEGATRON_LM"}}).find("MEGATRON_LM"),
            std::string::npos);
  EXPECT_NE(error_with("accelerate_config", {{"distributed_type", "DEEPSPED"}}).find("'deepspeed'"),
            std::string::npos);
  const Json sizes = {{"parallelism_config_dp_shard_size", 8}, {"parallelism_config_cp_size", 2}};
  EXPECT_NE(error_with("accelerate_config", {{"parallelism_config", sizes}}).find("cp_size: 1"),
            std::string::npos);
}

TEST_F(Sharding, KeysBesideAFile) {
  const std::string file = write("accelerate.yaml", "num_processes: 8\ndistributed_type: NO\n");
  const Plan plan = run_yaml("accelerate_config: " + file + "\nnum_processes: 4\nmain_process_ip: node1\n");
  EXPECT_NE(note_with(plan, "hone launch --nproc 4"), "");
  EXPECT_NE(note_with(plan, "main_process_ip: processes are started by"), "");
  const Plan wrap =
      run_yaml("fsdp: full_shard auto_wrap\nfsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n");
  EXPECT_NE(note_with(wrap, "transformer_layer_cls_to_wrap: with zero_stage 3"), "");
  EXPECT_NE(note_with(run_yaml("fsdp_config: {version: 2}\n"), "fsdp_config: only read with fsdp"), "");
  EXPECT_NE(yaml_error("deepspeed: absent.json\n").find("absent.json"), std::string::npos);
  EXPECT_NE(yaml_error("deepspeed: 3\n").find("a mapping of keys to values"), std::string::npos);
}

TEST_F(Sharding, ThePlanDoesNotDependOnTheFile) {
  const std::string file = write("ds.json", R"({"gradient_clipping": 0.5})");
  const Plan plan = deepspeed(file);
  const std::string yaml = write_plan(plan);
  EXPECT_EQ(yaml.find(file), std::string::npos);
  EXPECT_EQ(parse_run_text(Method::kSft, yaml, "plan.yaml").max_grad_norm, 0.5);
  EXPECT_NE(note_with(plan, "deepspeed: read gradient_clipping as max_grad_norm: 0.5"), "");
  EXPECT_NE(note_with(deepspeed({{"steps_per_print", 5}}), "DeepSpeed clips nothing; here max_grad_norm 1"),
            "");
}

TEST_F(Sharding, FilesAsPeopleHaveThem) {
  for (const char* name :
       {"zero1.json", "zero2.json", "zero2_offload.json", "zero3.json", "zero3_offload.json"}) {
    const Plan plan = deepspeed(fixture(name));
    EXPECT_NE(note_with(plan, "zero_optimization.stage"), "") << name;
    EXPECT_NO_THROW(deepspeed(fixture(name), {"--use_peft", "false"}, 8)) << name;
  }
  for (const char* name : {"accelerate_zero1.yaml", "accelerate_zero2.yaml", "accelerate_zero3.yaml",
                           "accelerate_fsdp1.yaml", "accelerate_fsdp2.yaml", "accelerate_multi_gpu.yaml"}) {
    const Plan plan = with("accelerate_config", fixture(name));
    EXPECT_NE(note_with(plan, "hone launch --nproc 8 sft"), "") << name;
    const bool stage = std::string(name).find("multi") == std::string::npos;
    EXPECT_EQ(!note_with(plan, "nothing is divided").empty(), stage) << name;
  }
  for (const char* name : {"zero1", "zero2", "zero3", "fsdp1", "fsdp2", "multi_gpu", "single_gpu"})
    EXPECT_NO_THROW(with("accelerate_config", name)) << name;
}

// docs/ranks.md between its two marks. A file with what belongs there is left where it differs.
TEST(ShardingRows, TheDocumentedKeysAreTheTables) {
  const std::string page = base::read_text(std::string(HONE_SOURCE_DIR) + "/docs/ranks.md");
  const std::string begin = "<!-- keys: from src/config/sharding/sharding_rows.h -->\n\n",
                    end = "<!-- end of keys -->\n";
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos) << begin << end;
  const std::string shown = page.substr(from + begin.size(), to - from - begin.size());
  if (shown == sharding_markdown()) return;
  const std::string file = std::string(HONE_BUILD_DIR) + "/sharding_keys.md";
  std::ofstream(file) << sharding_markdown();
  FAIL() << "docs/ranks.md has other keys; write those of " << file << " between its marks";
}

}  // namespace sharding_test
}  // namespace hone::config
