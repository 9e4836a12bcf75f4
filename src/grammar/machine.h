// Runs the automaton: all readings of the text at once, with their stacks in one shared graph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grammar/program.h"

namespace tokamak::grammar {

// One reading: a state, its frame's count and the stack below.
//   a, b   what the count at the start of a walk must fulfil for this reading (see local_mask.h): room >= a and
//          need <= b. Elsewhere 0 and kAnyNeed.
struct Config {
  uint32_t state;
  uint32_t node;  // of Stacks; 0: the bottom
  Count count;
  uint16_t a, b;
  bool operator==(const Config&) const = default;
};
inline constexpr uint16_t kAnyNeed = UINT16_MAX;

// Counts from this on stand for a start value that is not known: kSymbol - (iterations since).
inline constexpr uint32_t kSymbol = 1u << 30;
inline constexpr uint32_t kFirstSymbol = 1u << 29;
inline constexpr bool is_symbol(uint32_t value) { return value >= kFirstSymbol && value <= kSymbol; }

// Where to go on when a rule completes.
struct Frame {
  uint32_t state;
  Count count;
  uint32_t parent;
  uint32_t next;  // frame of the same node
};

// A graph of stacks: a node is a set of frames, one per way to get there. Nodes are changed only during the step that
// makes them.
struct Stacks {
  std::vector<uint32_t> first_frame{UINT32_MAX};  // by node; node 0 is the bottom
  std::vector<Frame> frames;

  uint32_t n_nodes() const { return static_cast<uint32_t>(first_frame.size()); }
  uint32_t add_node() {
    first_frame.push_back(UINT32_MAX);
    return n_nodes() - 1;
  }
  void add_frame(uint32_t node, Frame frame) {
    frame.next = first_frame[node];
    first_frame[node] = static_cast<uint32_t>(frames.size());
    frames.push_back(frame);
  }
  // Forgets everything made after the sizes were taken.
  void truncate(size_t nodes, size_t n_frames) {
    first_frame.resize(nodes);
    frames.resize(n_frames);
  }
  // Drops nodes that no config reaches and renumbers the rest.
  void compact(std::span<Config> configs);
};

struct Bottom {
  uint16_t a, b;
  bool operator==(const Bottom&) const = default;
};

// Readings that wait for input, and how the outermost rule may be complete.
struct Readings {
  std::vector<Config> configs;  // states that read bytes or tokens
  std::vector<Bottom> bottoms;  // none dominates another
  bool overflow = false;        // too many readings: the rest was dropped
  void clear() {
    configs.clear();
    bottoms.clear();
    overflow = false;
  }
  bool dead() const { return configs.empty() && bottoms.empty(); }
};

// More readings at once than any sensible grammar has.
inline constexpr size_t kMaxReadings = 10000;

// Scratch memory for steps; works on any Stacks of its program.
class Machine {
 public:
  explicit Machine(const Program& program) : program_(program) {}

  void start(Stacks& stacks, Readings& out);
  // All that follows from `config` without input.
  void close(Stacks& stacks, std::span<const Config> configs, Readings& out);
  // Where the readings of `from` stand after one byte.
  void step(Stacks& stacks, std::span<const Config> from, uint8_t byte, Readings& out);
  // After one token read as a whole by a token move.
  void step_token(Stacks& stacks, std::span<const Config> from, int32_t token, Readings& out);
  // What follows when the rule of a reading with stack `node` completes.
  void pop(Stacks& stacks, uint32_t node, Readings& out);

  const Program& program() const { return program_; }
  uint64_t work() const { return work_; }  // readings looked at so far

 private:
  struct Call {
    uint32_t rule;
    Count bounds;
    uint16_t a, b;
    uint32_t node;
    uint32_t next;
  };

  void begin(const Stacks& stacks, Readings& out);
  void run(Stacks& stacks, Readings& out);
  bool visit(const Config& config);
  void leave(Stacks& stacks, const Config& config, Readings& out);
  void call(Stacks& stacks, const Config& config, const Move& move);
  void follow(Stacks& stacks, const Config& config, const Move& move, Readings& out);
  void grow_table();

  const Program& program_;
  std::vector<Config> pending_, visited_;
  std::vector<uint32_t> table_;  // open addressing: 1 + index into visited_, stamped
  std::vector<uint32_t> stamps_;
  uint32_t stamp_ = 0;
  std::vector<Call> calls_;
  std::vector<uint32_t> call_head_, call_stamp_;  // by rule
  uint32_t first_new_node_ = 0;
  uint64_t work_ = 0;
};

}  // namespace tokamak::grammar
