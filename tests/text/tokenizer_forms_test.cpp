// Tokenizer folders of many forms against transformers' AutoTokenizer: the class, special tokens, ids,
// decoded texts and renderings that tests/parity/record_tokenizer_forms.py records, also after they were
// saved and read again.
#include <gtest/gtest.h>

#include <map>

#include "helpers.h"
#include "text/chat_template.h"
#include "text/tokenizer_files.h"

namespace hone::text {
namespace tokenizer_forms_test {

using base::Json;

const base::fs::path kText = base::fs::path(HONE_FIXTURES) / "text";

const Json& golden() {
  static const Json kForms = base::parse_json(base::read_text(kText / "forms" / "forms.json"), "forms.json");
  return kForms;
}

const Json& base_tokenizer(const std::string& name) {
  static std::map<std::string, Json> all;
  Json& found = all[name];
  if (found.is_null()) {
    const base::fs::path file =
        name == "tiny" ? kText / "tiny" / "tokenizer.json" : kText / "forms" / (name + ".json");
    found = base::parse_json(base::read_text(file), file.string());
  }
  return found;
}

void write_folder(const Json& form, const base::fs::path& folder) {
  const auto write = [&folder](const std::string& name, const Json& value) {
    base::fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary)
        << (value.is_string() ? value.get<std::string>() : base::dump_json(value));
  };
  Json tokenizer = base_tokenizer(form["base"].get<std::string>());
  for (const Json& edit : form["json"]) tokenizer[Json::json_pointer(edit[0].get<std::string>())] = edit[1];
  write("tokenizer.json", tokenizer);
  if (!form["config"].is_null()) write("tokenizer_config.json", form["config"]);
  for (const auto& [name, value] : form["files"].items()) write(name, value);
}

// What the recorder leaves out is as in the first form of the same tokenizer.
Json whole_want(const Json& form) {
  for (const Json& first : golden()["forms"]) {
    if (first["base"] != form["base"] || !first.contains("want")) continue;
    Json want = first["want"];
    want.update(form["want"]);
    return want;
  }
  return form["want"];
}

Json rendered(const Tokenizer& tokenizer, const Json& tools) {
  const ChatTemplates& templates = tokenizer.chat_templates();
  if (!templates.main && templates.named.empty()) return {{"error", "none"}};
  try {
    const ChatTemplate chat_template(templates, tokenizer.special(), "form");
    return chat_template
        .render({.messages = golden()["chat"],
                 .tools = tools,
                 .template_kwargs = {},
                 .add_generation_prompt = false})
        .text;
  } catch (const base::UserError&) {
    return {{"error", "none"}};
  }
}

Json results(const Tokenizer& tokenizer) {
  Json out = {{"size", tokenizer.vocab_size()}, {"special", Json::object()}};
  for (const auto& [name, token] : tokenizer.special().named) out["special"][name] = token;
  for (const Json& text : golden()["texts"]) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text.get<std::string>(), true).ids;
    out["ids"].push_back(tokenizer.encode(text.get<std::string>(), false).ids);
    out["ids_special"].push_back(ids);
    out["decoded"].push_back(tokenizer.decode(ids, false));
    out["decoded_skip"].push_back(tokenizer.decode(ids, true));
  }
  for (const Json& tools : {Json(), golden()["tools"], Json::array()})
    out["rendered"].push_back(rendered(tokenizer, tools));
  return out;
}

// `name` and, for lists of results, the text it is about.
void expect_same(const Json& ours, const Json& want, const std::string& name) {
  for (const auto& [key, value] : ours.items()) {
    if (key == "special") {
      for (const auto& [token, text] : want["special"].items())
        EXPECT_EQ(Json(value.value(token, "none")), text) << name << ", " << token;
      EXPECT_EQ(value.size(), want["special"].size()) << name << ": " << value;
      continue;
    }
    if (!value.is_array()) {
      EXPECT_EQ(value, want[key]) << name << ", " << key;
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Json& wanted = want[key][i];
      if (wanted.is_object()) {
        EXPECT_TRUE(value[i].is_object()) << name << ", " << key << " " << i << ": " << value[i];
      } else {
        EXPECT_EQ(value[i], wanted) << name << ", " << key << " " << i;
      }
    }
  }
}

TEST(TokenizerForms, AreReadAsTransformersReadsThem) {
  const TempFolder temp;
  int compared = 0, refused = 0;
  for (const Json& form : golden()["forms"]) {
    const auto name = form["name"].get<std::string>();
    const base::fs::path folder = temp.path() / "form";
    base::fs::remove_all(folder);
    write_folder(form, folder);
    if (!form.contains("want")) {
      const std::string message = user_error([&] { Tokenizer::from_folder(folder); });
      const std::string key = form.value("refused", "");
      EXPECT_TRUE(contains(message, key)) << name << ": " << message;
      EXPECT_TRUE(contains(message, "do:")) << name << ": " << message;
      ++refused;
      continue;
    }
    const Json want = whole_want(form);
    try {
      const Tokenizer tokenizer = Tokenizer::from_folder(folder);
      expect_same(results(tokenizer), want, name);
      EXPECT_EQ(read_tokenizer_folder(folder).class_name, want["class"].get<std::string>()) << name;

      // Saved as an adapter's folder, without config.json.
      const base::fs::path saved = temp.path() / "saved";
      base::fs::remove_all(saved);
      tokenizer.save(saved);
      expect_same(results(Tokenizer::from_folder(saved)), want, name + ", saved");
    } catch (const base::Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
    ++compared;
  }
  EXPECT_GE(compared, 130);
  EXPECT_GE(refused, 10);
}

}  // namespace tokenizer_forms_test
}  // namespace hone::text
