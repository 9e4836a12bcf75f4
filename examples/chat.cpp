// The smallest program on the public API: one question, one streamed answer.
// Usage: chat MODEL.gguf "question"
#include <iostream>

#include "tokamak/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: chat MODEL.gguf QUESTION\n";
    return 2;
  }
  auto engine = tokamak::Engine::open(argv[1]);
  if (!engine) {
    std::cerr << engine.error().message() << "\n";
    return 1;
  }
  const tokamak::Message question{.role = "user", .content = argv[2]};
  const auto answer = engine->chat({&question, 1}, {.n_predict = 200, .temperature = 0}, [](std::string_view text) {
    std::cout << text << std::flush;
    return true;
  });
  if (!answer) {
    std::cerr << answer.error().message() << "\n";
    return 1;
  }
  std::cout << "\n";
  return 0;
}
