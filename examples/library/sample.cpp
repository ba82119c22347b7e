// Completes prompts, together, as the tokens come: sample MODEL PROMPT...
#include <iostream>
#include <vector>

#include "hone/engine.h"
#include "hone/error.h"
#include "hone/model.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::cerr << "usage: sample MODEL PROMPT...\n";
    return 2;
  }
  const hone::Model model(argv[1]);
  hone::Engine engine(model);
  std::vector<hone::RequestId> ids;
  for (int i = 2; i < argc; ++i) {
    ids.push_back(engine.add({.prompt = model.encode(argv[i]), .max_new_tokens = 16, .temperature = 0.7}));
  }
  while (engine.advance()) {
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const hone::Completion one = engine.take(ids[i]);
    std::cout << argv[i + 2] << " -> " << model.decode(one.ids) << "  (" << one.ids.size() << " tokens)\n";
  }
  return 0;
} catch (const hone::UserError& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
