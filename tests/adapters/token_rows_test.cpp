// PEFT's trainable_token_indices: rows of the embedding, and of a head that is tied to it, as files and in
// the model. Numbers beside PEFT's: peft_parity_test.cpp.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "adapters/combine.h"
#include "adapters/lora.h"
#include "adapters/merge.h"
#include "adapters/peft_files.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace token_rows_test {

using namespace hone::test_tools;
using base::Json;

constexpr const char* kKey = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";

struct Setting {
  explicit Setting(bool tied) {
    Json config = tiny_config("llama");
    config["tie_word_embeddings"] = tied;
    write_model(base(), config);
    model.emplace(*model::open_weights(base()), model::DtypePolicy{});
  }
  fs::path base() const { return folder.path() / "base"; }
  at::Tensor logits(const ops::PassContext& pass = {}) const { return logits_of(*model, pass); }
  static at::Tensor logits_of(const model::CausalLm& lm, const ops::PassContext& pass = {}) {
    const at::NoGradGuard no_grad;
    const at::Tensor hidden = lm.hidden(make_batch({{5, 9, 11, 9, 30}}), pass);
    const at::Tensor out = lm.logits(hidden, pass);
    EXPECT_LT(largest_difference(out, lm.autograd_logits(hidden, pass)), 1e-5);
    return out;
  }

  TempFolder folder;
  std::optional<model::CausalLm> model;
};

LoraConfig with_tokens(std::vector<std::int64_t> ids) {
  LoraConfig out;
  out.r = 4;
  out.target_modules = {"q_proj", "v_proj"};
  out.token_indices = std::move(ids);
  return out;
}

void move_rows(const Adapter& adapter) {
  const at::NoGradGuard no_grad;
  adapter.token_rows().add_(
      at::sin(at::arange(adapter.token_rows().numel(), at::kFloat)).view_as(adapter.token_rows()));
}

TEST(TokenRows, BeginAsTheBaseAndAreReadWhereTheyBelong) {
  for (const bool tied : {true, false}) {
    Setting s(tied);
    const at::Tensor before = s.logits();
    const Adapter adapter = Adapter::attach(*s.model, with_tokens({11, 3, 40}), 1);
    EXPECT_EQ(adapter.tensors().back().name, kKey);
    EXPECT_EQ(adapter.tensors().back().value.sizes(), (at::IntArrayRef{3, 32}));
    EXPECT_TRUE(is_token_rows(adapter.tensors().back()));
    EXPECT_LT(largest_difference(s.logits(), before), 1e-6);
    move_rows(adapter);
    const at::Tensor after = s.logits();
    // Token 11 is the third: what comes before it changes only in a tied head's columns.
    const at::Tensor others = at::tensor({0, 2, 5, 9, 12, 47}, at::kLong);
    EXPECT_TRUE(
        after.narrow(0, 0, 2).index_select(1, others).equal(before.narrow(0, 0, 2).index_select(1, others)));
    EXPECT_EQ(after.narrow(0, 0, 2).equal(before.narrow(0, 0, 2)), !tied);
    EXPECT_GT(largest_difference(after.narrow(0, 2, 3).index_select(1, others),
                                 before.narrow(0, 2, 3).index_select(1, others)),
              1e-2);
    EXPECT_TRUE(s.logits({.adapters_on = false}).equal(before));
    // The next adapter takes the place of this one's rows too.
    const Adapter next = Adapter::attach(*s.model, with_tokens({}), 1);
    EXPECT_FALSE(next.token_rows().defined());
    EXPECT_TRUE(s.logits().equal(before));
  }
}

TEST(TokenRows, ComeBackFromFilesInBothForms) {
  for (const char* form : {"", "embed_tokens"}) {
    Setting s(true);
    LoraConfig config = with_tokens({11, 3, 40});
    config.token_module = form;
    const Adapter adapter = Adapter::attach(*s.model, config, 1);
    move_rows(adapter);
    const fs::path folder = s.folder.path() / "adapter";
    adapter.save(folder);
    const Json written =
        base::parse_json(base::read_text(folder / kConfigFile), "").at("trainable_token_indices");
    const Json ids = {11, 3, 40};
    EXPECT_EQ(written, *form == 0 ? ids : Json({{"embed_tokens", ids}}));
    Setting fresh(true);
    const Adapter back = Adapter::load(*fresh.model, folder);
    EXPECT_TRUE(back.flat().equal(adapter.flat()));
    EXPECT_TRUE(fresh.logits().equal(s.logits()));
    EXPECT_EQ(back.config().token_module, form);
  }
}

TEST(TokenRows, AreInTheMergedModel) {
  for (const bool tied : {true, false}) {
    Setting s(tied);
    const Adapter adapter = Adapter::attach(*s.model, with_tokens({11, 3, 40}), 1);
    move_rows(adapter);
    adapter.save(s.folder.path() / "adapter");
    merge_to_folder(s.base(), {s.folder.path() / "adapter"}, s.folder.path() / "merged");
    const auto source = model::open_weights(s.folder.path() / "merged");
    EXPECT_EQ(source->has("lm_head.weight"), !tied);
    EXPECT_LT(largest_difference(Setting::logits_of(model::CausalLm(*source, {})), s.logits()), 1e-5);
  }
}

TEST(TokenRows, OfAPissaRunGoOnWithTheSameBits) {
  Setting s(true), again(true);
  LoraConfig config = with_tokens({11, 3});
  config.init = LoraInit::kPissa;
  const Adapter adapter = Adapter::attach(*s.model, config, 1);
  {
    const at::NoGradGuard no_grad;
    adapter.flat().add_(0.25);
  }
  adapter.save(s.folder.path() / "adapter");
  const Adapter resumed = Adapter::resume_pissa(*again.model, s.folder.path() / "adapter", config);
  EXPECT_TRUE(resumed.token_rows().equal(adapter.token_rows()));
  EXPECT_TRUE(resumed.initial_values().equal(adapter.initial_values()));
  config.token_indices = {11};
  EXPECT_SAYS(user_error([&] { Adapter::resume_pissa(*again.model, s.folder.path() / "adapter", config); }),
              "trainable_token_indices");
}

TEST(TokenRows, RefuseWhatHasNoRow) {
  Setting s(true);
  for (const auto& [ids, says] : std::vector<std::pair<std::vector<std::int64_t>, std::string>>{
           {{48}, "from 0 to 47"}, {{-1}, "-1"}, {{3, 4, 3}, "3 twice"}}) {
    EXPECT_SAYS(user_error([&] { Adapter::attach(*s.model, with_tokens(ids), 1); }), says);
  }
  const auto read = [](const Json& value) {
    return user_error([&] {
      config_from_json({{"peft_type", "LORA"}, {"r", 2}, {"trainable_token_indices", value}}, "f");
    });
  };
  EXPECT_EQ(read({1, 2}), "");
  EXPECT_EQ(read({{"model.embed_tokens", {1, 2}}}), "");
  EXPECT_EQ(read(nullptr), "");
  EXPECT_SAYS(read({{"lm_head", {1, 2}}}), "rows of embed_tokens");
  EXPECT_SAYS(read({{"embed_tokens", {1}}, {"lm_head", {2}}}), "the same rows of it and of lm_head");
  EXPECT_SAYS(read({{"embed_tokens", {1}}, {"norm", {1}}}), "rows of embed_tokens");
  const LoraConfig both = config_from_json(
      {{"peft_type", "LORA"}, {"trainable_token_indices", {{"lm_head", {1}}, {"embed_tokens", {1}}}}}, "f");
  EXPECT_EQ(config_to_json(both).at("trainable_token_indices"),
            Json({{"embed_tokens", {1}}, {"lm_head", {1}}}));
  model::ModelConfig model = model::parse_model_config(tiny_config("llama"), "f");
  EXPECT_SAYS(user_error([&] { check_token_indices(both, model, "f"); }), "rows of lm_head too");
  model.tie_word_embeddings = true;
  check_token_indices(both, model, "f");
  EXPECT_SAYS(read("x"), "f: trainable_token_indices");
  EXPECT_SAYS(read({1.5}), "f: trainable_token_indices");

  Adapter::attach(*s.model, with_tokens({3}), 1).save(s.folder.path() / "adapter");
  const StoredAdapter stored = read_adapter(s.folder.path() / "adapter", s.model->config());
  EXPECT_SAYS(user_error([&] {
                combine({stored, stored}, {"a", "b"}, {1, 1}, {.how = Combination::kCat}, s.model->config());
              }),
              "trainable_token_indices");
}

}  // namespace token_rows_test
}  // namespace hone::adapters
