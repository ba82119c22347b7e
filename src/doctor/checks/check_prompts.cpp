// The questions of merged_model.h: arithmetic, facts, lists, code, small talk, so that a model of any
// training has some that it is sure of and some that it is not.
#include "doctor/tools/merged_model.h"

namespace hone::doctor {

const std::vector<std::string>& check_prompts() {
  static const std::vector<std::string> prompts = {
      "What is 12 + 7?",
      "What is 9 times 8?",
      "A box holds 6 eggs. How many eggs are in 7 boxes?",
      "What is half of 90?",
      "Which is larger, 0.4 or 0.35?",
      "Tom has 15 apples and eats 4. How many are left?",
      "What is 100 minus 37?",
      "What comes next: 2, 4, 8, 16?",
      "How many minutes are in three hours?",
      "What is 25 % of 80?",
      "What is the capital of France?",
      "Which planet is nearest to the sun?",
      "Who wrote Hamlet?",
      "What is water made of?",
      "In which continent is Egypt?",
      "How many legs does a spider have?",
      "What colour is a ripe banana?",
      "Which ocean lies between Europe and America?",
      "What is the boiling point of water?",
      "Name the longest river that you know.",
      "Name three fruits.",
      "List the days of the week.",
      "Name two colours of the rainbow.",
      "Give three reasons to take a walk.",
      "Name an animal that can fly.",
      "Write a sentence about the sea.",
      "Write a short greeting to a friend.",
      "Describe snow in one sentence.",
      "Tell me a fact about cats.",
      "Finish the sentence: The early bird",
      "Translate 'good morning' into French.",
      "Translate 'thank you' into German.",
      "What is the opposite of cold?",
      "Give a word that rhymes with house.",
      "What is the plural of mouse?",
      "Spell the word necessary.",
      "Correct the sentence: He go to school.",
      "Is the word quickly an adverb?",
      "Write a Python function that adds two numbers.",
      "What does HTML stand for?",
      "Write a loop in C that prints 1 to 5.",
      "What is a variable in a program?",
      "How do I boil an egg?",
      "What should I pack for a day at the beach?",
      "How can I fall asleep sooner?",
      "Why is the sky blue?",
      "Why do leaves fall in autumn?",
      "Summarise in five words: The train was late because of the storm.",
      "Is it safe to look at the sun?",
      "Who are you?",
  };
  return prompts;
}

}  // namespace hone::doctor
