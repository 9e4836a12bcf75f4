#include "backend/cuda/emulator/block.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <deque>
#include <memory>
#include <thread>

#include "backend/cuda/emulator/fiber.h"
#include "backend/cuda/emulator/shared_memory.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace tokamak::cuda::emulator {

namespace {
constexpr int kNamedBarriers = 16;
constexpr size_t kGroup = 128;

enum class Waits : uint8_t { no, block, warp, warpgroup, barrier, ended };

struct Thread {
  uint32_t n = 0;
  Waits waits = Waits::no;
  // What it waits for.
  int named = 0;
  uint32_t lanes = 0, barrier = 0, parity = 0;
  Instruction instruction{};
  void* bring = nullptr;
};

// Of a warpgroup: products of groups that are not done, and those that are no group yet.
struct Products {
  std::vector<std::vector<std::function<void()>>> groups;
  std::vector<std::function<void()>> products;
};

struct Named {
  uint32_t expected = 0, arrived = 0;
};

// A barrier's 8 bytes.
struct Barrier {
  uint16_t expected, pending;
  int32_t bytes_and_phase;  // bytes outstanding times 2, plus the phase's parity

  static constexpr uint16_t kMostArrivals = 0x7FFF;  // above: never initialised
  int32_t bytes() const { return bytes_and_phase >> 1; }
  uint32_t phase() const { return static_cast<uint32_t>(bytes_and_phase & 1); }
  void add_bytes(int32_t n) { bytes_and_phase += 2 * n; }
};
static_assert(sizeof(Barrier) == 8);

std::string text(uint3 v) {
  return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}

std::string hex(uint32_t x) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08X", x);
  return digits;
}

class Block {
 public:
  Block(const Grid& grid, Order order, SharedMemory& shared, Fibers& fibers)
      : grid_(grid), order_(order), shared_(shared), fibers_(fibers), threads_(count(grid.block)) {}

  // Of the block that runs in this thread of the host. Not thread-local: one launch runs at a time.
  static inline Block* running = nullptr;

  std::string run_block(uint3 index) {
    running = this;
    error_.clear();
    copies_.clear();
    woken_.clear();
    named_ = {};
    products_.assign(threads_.size() / kGroup + 1, {});
    n_alive_ = threads_.size();
    shared_.clear();
    for (size_t i = 0; i < threads_.size(); ++i) {
      threads_[i] = Thread{};
      threads_[i].n = static_cast<uint32_t>(i);
    }
    blockIdx = index, blockDim = grid_.block, gridDim = grid_.grid;
    while (n_alive_ > 0 && error_.empty()) {
      const bool went_on = run_round();
      if (went_on || !error_.empty()) continue;
      if (!copies_.empty())
        finish_copy();
      else
        error_ = "every thread waits: " + waiting();
    }
    if (error_.empty() && !copies_.empty()) error_ = "the block ends before its copies";
    running = nullptr;
    return error_;
  }

  Thread& self() { return *self_; }
  Products& products_of(const Thread& t) { return products_[t.n / kGroup]; }
  bool is_descending() const { return order_ == Order::descending; }
  const SharedMemory& shared() const { return shared_; }

  [[noreturn]] void fail_thread(const std::string& what) {
    error_ = what + ", thread " + text(threadIdx) + " of block " + text(blockIdx);
    fibers_.abandon();
  }

  void sync_named(int id, uint32_t n_threads) {
    Named& b = named_[static_cast<size_t>(id)];
    if (b.arrived > 0 && b.expected != n_threads)
      fail_thread("barrier " + std::to_string(id) + ": numbers of threads differ");
    b.expected = n_threads;
    ++b.arrived;
    self_->named = id;
    self_->waits = Waits::block;
    end_named(id);
    leave_while_waiting();
  }
  void meet(Waits kind, uint32_t lanes, const Instruction& instruction, void* bring) {
    Thread& me = *self_;
    me.lanes = lanes, me.instruction = instruction, me.bring = bring, me.waits = kind;
    const size_t size = kind == Waits::warp ? 32 : kGroup, first = me.n / size * size;
    std::array<void*, kGroup> brought{};
    for (size_t i = 0; i < size; ++i) {
      if (kind == Waits::warp && !(lanes >> i & 1)) continue;
      if (first + i >= threads_.size()) fail_thread("meets threads that the block does not have");
      const Thread& other = threads_[first + i];
      if (other.waits == Waits::ended) fail_thread("meets thread " + std::to_string(first + i) + ", which has ended");
      // Not yet here: elsewhere, or at an instruction of other lanes.
      const bool knows_me = kind != Waits::warp || (other.lanes >> me.n % 32 & 1) != 0;
      if (other.waits != kind || !knows_me) return leave_while_waiting();
      if (other.lanes != lanes || other.instruction.together != instruction.together)
        fail_thread(std::string(instruction.name) + " of lanes " + hex(lanes) + " meets thread " +
                    std::to_string(first + i) + ", which is at " + other.instruction.name + " of lanes " +
                    hex(other.lanes));
      brought[i] = other.bring;
    }
    instruction.together(brought.data());
    for (size_t i = 0; i < size; ++i)
      if (brought[i]) threads_[first + i].waits = Waits::no;
  }

  Barrier& barrier_at(uint32_t address) {
    auto& b = *reinterpret_cast<Barrier*>(shared_at(address, sizeof(Barrier), 8));
    if (b.expected > Barrier::kMostArrivals) fail_thread("barrier " + std::to_string(address) + " was not initialised");
    return b;
  }
  void arrive(uint32_t address) {
    Barrier& b = barrier_at(address);
    if (b.pending == 0) fail_thread("barrier " + std::to_string(address) + ": more arrivals than it counts");
    --b.pending;
    // Ascending, who was waited for makes room at once: what it has yet to do comes too late for what it gave away.
    if (end_phase(address, b) && !is_descending()) give_way();
  }
  // Whether threads wait no longer.
  bool end_phase(uint32_t address, Barrier& b) {
    if (b.pending > 0 || b.bytes() != 0) return false;
    b.pending = b.expected;
    b.bytes_and_phase ^= 1;
    bool any = false;
    for (Thread& t : threads_)
      if (t.waits == Waits::barrier && t.barrier == address && b.phase() != t.parity)
        t.waits = Waits::no, woken_.push_back(t.n), any = true;
    return any;
  }
  void wait_barrier(uint32_t address, uint32_t parity) {
    if (barrier_at(address).phase() != parity) return;
    self_->waits = Waits::barrier, self_->barrier = address, self_->parity = parity;
    leave_while_waiting();
  }
  struct Copy {
    uint32_t barrier, n_bytes;
    std::function<void()> copy;
  };
  void add_copy(Copy copy) {
    copies_.push_back(std::move(copy));
    if (!is_descending()) finish_copy();
  }
  void finish_copy() {
    const Copy copy = std::move(copies_.front());
    copies_.pop_front();
    copy.copy();
    auto& b = *reinterpret_cast<Barrier*>(shared_at(copy.barrier, sizeof(Barrier), 8));
    b.add_bytes(-static_cast<int32_t>(copy.n_bytes));
    end_phase(copy.barrier, b);
  }
  uint8_t* shared_at(uint32_t address, size_t n_bytes, size_t align) {
    const auto window = shared_.window();
    const size_t at = address - size_t{kSharedWindow};
    if (address < kSharedWindow || at + n_bytes > window.size())
      fail_thread("shared address " + std::to_string(address) + " is outside the block's memory");
    if (address % align != 0)
      fail_thread("shared address " + std::to_string(address) + " is no multiple of " + std::to_string(align));
    return window.data() + at;
  }

  static void body(size_t i) {
    running->grid_.kernel();
    Thread& t = running->threads_[i];
    const Products& p = running->products_of(t);
    if (!p.groups.empty() || !p.products.empty()) running->fail_thread("ends before its products");
    t.waits = Waits::ended;
    --running->n_alive_;
    for (int id = 0; id < kNamedBarriers; ++id) running->end_named(id);
  }
  static void on_signal(int signal, siginfo_t* info, void*) {
    if (!running || !running->self_) std::signal(signal, SIG_DFL), std::raise(signal);
    char what[64];
    std::snprintf(what, sizeof what, "signal %d at address %p", signal, info->si_addr);
    running->fail_thread(what);
  }

 private:
  static size_t count(dim3 d) { return size_t{d.x} * d.y * d.z; }
  uint3 index_of(uint32_t n) const {
    const dim3 d = grid_.block;
    return {n % d.x, n / d.x % d.y, n / d.x / d.y};
  }
  // Runs each thread that can until it waits; false where none could.
  bool run_round() {
    bool went_on = false;
    const size_t n = threads_.size();
    for (size_t step = 0; step < n && error_.empty(); ++step) {
      went_on |= go_on_with(is_descending() ? n - 1 - step : step);
      while (!woken_.empty() && error_.empty()) {
        const size_t i = woken_.front();
        woken_.pop_front();
        if (!is_descending()) went_on |= go_on_with(i);
      }
    }
    return went_on;
  }
  // Until it waits or gives way; false where it waits already.
  bool go_on_with(size_t i) {
    if (threads_[i].waits != Waits::no) return false;
    self_ = &threads_[i];
    threadIdx = index_of(self_->n);
    fibers_.enter(i);
    self_ = nullptr;
    return true;
  }
  void give_way() {
    Thread* const me = self_;
    fibers_.leave();
    self_ = me;
  }
  void leave_while_waiting() {
    Thread* const me = self_;
    if (me->waits != Waits::no) fibers_.leave();
    self_ = me;
  }
  // 0 is __syncthreads: threads that have ended do not count.
  void end_named(int id) {
    Named& b = named_[static_cast<size_t>(id)];
    if (b.arrived == 0 || b.arrived < (id == 0 ? static_cast<uint32_t>(n_alive_) : b.expected)) return;
    b.arrived = 0;
    for (Thread& t : threads_)
      if (t.waits == Waits::block && t.named == id) t.waits = Waits::no;
  }

  // Who waits for what, neighbours with the same reason together.
  std::string waiting() const {
    std::string out;
    for (size_t i = 0, first = 0; i < threads_.size(); ++i) {
      const std::string reason = reason_of(threads_[i]);
      if (i + 1 < threads_.size() && reason_of(threads_[i + 1]) == reason) continue;
      out += (out.empty() ? "" : "; ") + std::to_string(first) + " to " + std::to_string(i) + " " + reason;
      first = i + 1;
    }
    return out;
  }
  static std::string reason_of(const Thread& t) {
    switch (t.waits) {
      case Waits::ended:
        return "have ended";
      case Waits::block:
        return t.named == 0 ? "at __syncthreads" : "at barrier " + std::to_string(t.named);
      case Waits::warp:
        return std::string("at ") + t.instruction.name + " of lanes " + hex(t.lanes);
      case Waits::warpgroup:
        return std::string("at ") + t.instruction.name;
      case Waits::barrier:
        return "for the barrier at " + std::to_string(t.barrier) + ", parity " + std::to_string(t.parity);
      case Waits::no:
        break;
    }
    return "run";
  }

  const Grid& grid_;
  Order order_;
  SharedMemory& shared_;
  Fibers& fibers_;
  std::vector<Thread> threads_;
  std::array<Named, kNamedBarriers> named_{};
  std::vector<Products> products_;
  std::deque<Copy> copies_;
  std::deque<size_t> woken_;  // by the end of a phase: they run next
  Thread* self_ = nullptr;
  size_t n_alive_ = 0;
  std::string error_;
};

Block& block() { return *Block::running; }

// Signals of a kernel's wrong accesses are its errors.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_sigaction = Block::on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Signals() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  std::array<struct sigaction, 4> before_{};
};

std::string run_blocks(const Grid& grid, Order order) {
  const Signals signals;
  static std::unique_ptr<Fibers> fibers;  // kept: they begin slowly
  if (!fibers) fibers = std::make_unique<Fibers>(Block::body);
  SharedMemory shared(grid.shared_bytes);
  Block one(grid, order, shared, *fibers);
  const uint64_t n = uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  for (uint64_t step = 0; step < n; ++step) {
    const uint64_t i = order == Order::descending ? n - 1 - step : step;
    const auto x = static_cast<unsigned>(i % grid.grid.x), y = static_cast<unsigned>(i / grid.grid.x % grid.grid.y);
    const auto z = static_cast<unsigned>(i / grid.grid.x / grid.grid.y);
    if (const std::string error = one.run_block({x, y, z}); !error.empty()) {
      fibers.reset();  // some are in the middle of a kernel
      return error;
    }
  }
  return {};
}
}  // namespace

uint32_t thread_in_block() { return block().self().n; }

// In a thread of its own: shared memory is thread-local (shared_memory.h).
std::string run(const Grid& grid, Order order) {
  std::string error;
  std::thread([&] { error = run_blocks(grid, order); }).join();
  return error;
}

void fail(const std::string& what) { block().fail_thread(what); }
void sync_block() { block().sync_named(0, 0); }
void sync_some(int barrier, int n_threads) {
  if (barrier < 1 || barrier >= kNamedBarriers || n_threads < 32 || n_threads % 32 != 0)
    fail("barrier " + std::to_string(barrier) + " of " + std::to_string(n_threads) + " threads: 1 to 15, whole warps");
  block().sync_named(barrier, static_cast<uint32_t>(n_threads));
}
void meet_warp(uint32_t lanes, const Instruction& instruction, void* bring) {
  if (!(lanes >> lane() & 1)) fail("meets lanes without itself");
  block().meet(Waits::warp, lanes, instruction, bring);
}
void meet_warpgroup(const Instruction& instruction, void* bring) {
  block().meet(Waits::warpgroup, 0, instruction, bring);
}

uint8_t* dynamic_shared(size_t align) { return block().shared().dynamic(align); }
uint32_t shared_address(const void* p) {
  const auto window = block().shared().window();
  const auto* byte = static_cast<const uint8_t*>(p);
  if (byte < window.data() || byte > window.data() + window.size()) fail("no address of dynamic shared memory");
  return kSharedWindow + static_cast<uint32_t>(byte - window.data());
}
uint8_t* shared_at(uint32_t address, size_t n_bytes, size_t align) {
  return block().shared_at(address, n_bytes, align);
}

void barrier_init(uint32_t barrier, uint32_t n_arrivals) {
  if (n_arrivals == 0 || n_arrivals > Barrier::kMostArrivals)
    fail("barrier of " + std::to_string(n_arrivals) + " arrivals");
  const auto n = static_cast<uint16_t>(n_arrivals);
  *reinterpret_cast<Barrier*>(shared_at(barrier, sizeof(Barrier), 8)) = {n, n, 0};
}
void barrier_arrive(uint32_t barrier) { block().arrive(barrier); }
void barrier_announce(uint32_t barrier, uint32_t n_bytes) {
  block().barrier_at(barrier).add_bytes(static_cast<int32_t>(n_bytes));
}
bool barrier_passed(uint32_t barrier, uint32_t parity) { return block().barrier_at(barrier).phase() != parity; }
void barrier_wait(uint32_t barrier, uint32_t parity) { block().wait_barrier(barrier, parity); }
void copy_behind(uint32_t barrier, uint32_t n_bytes, std::function<void()> copy) {
  block().barrier_at(barrier);
  block().add_copy({barrier, n_bytes, std::move(copy)});
}

void product_behind(std::function<void()> product) {
  if (block().is_descending()) return product();
  block().products_of(block().self()).products.push_back(std::move(product));
}
void end_product_group() {
  Products& p = block().products_of(block().self());
  p.groups.push_back(std::move(p.products));
  p.products.clear();
}
void finish_product_groups(size_t n_left) {
  auto& groups = block().products_of(block().self()).groups;
  for (; groups.size() > n_left; groups.erase(groups.begin()))
    for (const auto& product : groups.front()) product();
}

}  // namespace tokamak::cuda::emulator
