// Many items in one job give what each gives alone (golden.json holds transformers' ids and masks).
#include "text/encode_batch.h"

#include <gtest/gtest.h>

#include "helpers.h"

namespace hone::text {
namespace encode_batch_test {

using base::Json;

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

Json golden_chats() {
  return base::parse_json(base::read_text(kTiny / "golden.json"), "golden.json")["chats"];
}

Json one_message(const std::string& content) {
  return Json::array({{{"role", "user"}, {"content", content}}});
}

TEST(EncodeBatch, ChatsAreTransformers) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const ChatTemplate chat_template(*tokenizer.chat_template(), tokenizer.special(), "tiny");
  const Json chats = golden_chats();
  for (const bool marks : {true, false}) {
    EncodeBatch batch(tokenizer, &chat_template, marks);
    for (const Json& golden : chats) {
      const Json& request = golden["request"];
      batch.add_chat(request["messages"], request.value("tools", Json()),
                     request.value("template_kwargs", Json()), request.value("add_generation_prompt", false));
    }
    const std::vector<TokenizedChat> all = batch.run();
    ASSERT_EQ(all.size(), chats.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(Json(all[i].ids), chats[i]["ids"]);
      EXPECT_EQ(Json(all[i].assistant), marks ? chats[i]["mask"] : Json::array());
    }
  }
}

TEST(EncodeBatch, TextsAreThoseOfEncode) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const std::vector<std::string> texts = {
      "", "a", "Two words.", "", "d\u00e9j\u00e0 <|im_end|> vu\n\n", "1 22 333"};
  EncodeBatch batch(tokenizer, nullptr, false);
  for (const std::string& text : texts) {
    batch.add_text(text, true);
    batch.add_text(text, false);
  }
  const std::vector<TokenizedChat> all = batch.run();
  ASSERT_EQ(all.size(), 2 * texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(all[2 * i].ids, tokenizer.encode(texts[i], true).ids) << texts[i];
    EXPECT_EQ(all[2 * i + 1].ids, tokenizer.encode(texts[i], false).ids) << texts[i];
  }
  EXPECT_TRUE(EncodeBatch(tokenizer, nullptr, false).run().empty());
}

TEST(EncodeBatch, OneBadItemLeavesNone) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const ChatTemplate picky(
      "{% if messages[0].content == 'bad' %}{{ raise_exception('no') }}{% endif %}"
      "{% if messages[0].content == 'long' %}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}"
      "{% endfor %}{% endif %}{{ messages[0].content }}",
      {}, "picky");
  for (const auto& [content, count] :
       std::vector<std::pair<std::string, std::size_t>>{{"good", 3}, {"bad", 0}, {"long", 0}}) {
    EncodeBatch batch(tokenizer, &picky, false);
    batch.add_chat(one_message("first"), {}, {}, false);
    batch.add_chat(one_message(content), {}, {}, false);
    batch.add_text("last", true);
    EXPECT_EQ(batch.run().size(), count) << content;
  }
  EncodeBatch broken(tokenizer, nullptr, false);
  broken.add_text("fine", true);
  broken.add_text("\xff", true);
  EXPECT_TRUE(broken.run().empty());
  EXPECT_THROW(broken.add_chat(one_message("a"), {}, {}, false), base::InternalError);
}

}  // namespace encode_batch_test
}  // namespace hone::text
