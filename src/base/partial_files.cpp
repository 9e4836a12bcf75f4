#include "base/partial_files.h"

#include <unistd.h>

#include <atomic>
#include <string>

namespace tokamak {

namespace {
// Nodes are neither changed nor freed: a handler may be reading them.
struct Node {
  std::string path;
  Node* next;
  std::atomic<bool> is_there = true;
};
std::atomic<Node*> newest = nullptr;
static_assert(std::atomic<Node*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
}  // namespace

void add_partial_file(std::string_view path) {
  Node* node = new Node{.path = std::string(path), .next = newest.load()};
  while (!newest.compare_exchange_weak(node->next, node)) continue;
}

void forget_partial_file(std::string_view path) {
  for (Node* node = newest.load(); node != nullptr; node = node->next)
    if (node->is_there && node->path == path) node->is_there = false;
}

void unlink_partial_files() {
  for (Node* node = newest.load(); node != nullptr; node = node->next)
    if (node->is_there.exchange(false)) ::unlink(node->path.c_str());
}

}  // namespace tokamak
