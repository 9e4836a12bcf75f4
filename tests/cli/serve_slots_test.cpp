// /slots, /props and /lora-adapters of a real process; saving while the process is killed and the disk is full.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <random>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"
#include "cli/serve_helpers.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ServeSlots : public testing::Test {
 protected:
  void SetUp() override {
    static int n_folders = 0;
    folder_ = scratch_folder() / ("slots" + std::to_string(n_folders++));
    fs::create_directories(folder_);
  }
  ServeOptions options(int64_t max_file_bytes = 0) const {
    return {.flags = {"--ctx-size", "4096", "--parallel", "2", "--slot-save-path", folder_.string()},
            .max_file_bytes = max_file_bytes};
  }
  static Json completion(const std::string& prompt) {
    return {{"prompt", prompt}, {"n_predict", 8}, {"temperature", 0}};
  }
  static Json filename(std::string_view name) { return {{"filename", name}}; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  fs::path folder_;
};

TEST_F(ServeSlots, SavedAndRestoredOverARestart) {
  const std::string prompt(1000, 'p');
  Json first, saved;
  {
    const ServeProcess server(chat_model(), options());
    first = server.expect(200, "/completion", completion(prompt));
    EXPECT_EQ(first["id_slot"], 0);
    saved = server.expect(200, "/slots/0?action=save", filename("talk.bin"));
    EXPECT_EQ(saved["id_slot"], 0);
    EXPECT_EQ(saved["filename"], "talk.bin");
    EXPECT_EQ(saved["n_saved"], 1007);
    EXPECT_EQ(saved["n_written"], fs::file_size(folder_ / "talk.bin"));
    EXPECT_GT(saved["timings"]["save_ms"], 0);
  }
  const ServeProcess server(chat_model(), options());
  const Json restored = server.expect(200, "/slots/1?action=restore", filename("talk.bin"));
  EXPECT_EQ(restored["id_slot"], 1);
  EXPECT_EQ(restored["n_restored"], saved["n_saved"]);
  EXPECT_EQ(restored["n_read"], saved["n_written"]);
  EXPECT_GT(restored["timings"]["restore_ms"], 0);
  const Json again = server.expect(200, "/completion", completion(prompt));
  EXPECT_EQ(again["content"], first["content"]);
  EXPECT_EQ(again["tokens_cached"], 999);
  const Json list = Json::parse(server.get("/slots").body);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["id"], 1);
  EXPECT_EQ(list[1]["n_tokens"], saved["n_saved"]);
  EXPECT_EQ(list[1]["is_processing"], false);
  EXPECT_EQ(server.expect(200, "/slots/1?action=erase", Json::object())["n_erased"], saved["n_saved"]);
  EXPECT_EQ(server.expect(200, "/completion", completion(prompt))["tokens_cached"], 0);
}

TEST_F(ServeSlots, RequestsThatCannotBe) {
  {
    const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256"}});
    server.expect(200, "/completion", completion("x"));
    const Json json = server.expect(400, "/slots/0?action=save", filename("a"));
    EXPECT_NE(json.dump().find("--slot-save-path"), std::string::npos);
  }
  const ServeProcess server(chat_model(), options());
  server.expect_bad_field("filename", "/slots/0?action=save", Json::object());
  for (const char* name : {"", "..", "a/b", "/tmp/x", "../x", ".x", "a\\b"})
    for (const char* action : {"save", "restore"})
      server.expect_bad_field("filename", std::string("/slots/0?action=") + action, filename(name));
  server.expect_bad_field("filename", "/slots/0?action=save", filename(std::string("a\0b", 3)));
  server.expect_bad_field("action", "/slots/0?action=burn", filename("a"));
  server.expect_bad_field("action", "/slots/0", filename("a"));
  server.expect_bad_field("id_slot", "/slots/2?action=erase", Json::object());
  server.expect_bad_field("id_slot", "/slots/x?action=erase", Json::object());
  EXPECT_EQ(server.post("/slots/", Json::object()).status, 404);
  EXPECT_EQ(server.post("/slots/0/1?action=erase", Json::object()).status, 404);
  server.expect(400, "/slots/0?action=save", filename("a"));
  server.expect(404, "/slots/0?action=restore", filename("a"));
  write_whole_file(folder_ / "a", "no slot at all");
  server.expect(400, "/slots/0?action=restore", filename("a"));
  write_whole_file(folder_ / "a", std::string(100000, 'x'));
  server.expect(400, "/slots/0?action=restore", filename("a"));
  server.expect_bad_field("id_slot", "/completion", {{"prompt", "x"}, {"id_slot", 2}});
  EXPECT_EQ(server.expect(200, "/completion", {{"prompt", "x"}, {"id_slot", 1}, {"n_predict", 2}})["id_slot"], 1);
  EXPECT_EQ(server.get("/slots?fail_on_no_slot=1").status, 200);
}

TEST_F(ServeSlots, NoSlotIsFreeWhileAllRun) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "4096", "--parallel", "1"}});
  RawClient client(server.port());
  const std::string body = R"({"prompt":"x","n_predict":4000,"stream":true})";
  client.send("POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  client.read_until("data: ");
  bool seen = false;
  for (int i = 0; i < 100 && !seen; ++i) {
    const Json list = Json::parse(server.get("/slots").body);
    seen = list.size() == 1 && list[0]["is_processing"] == true && list[0]["state"] == "decode" &&
           server.get("/slots?fail_on_no_slot=1").status == 503;
    usleep(10000);
  }
  EXPECT_TRUE(seen);
}

// A file that is too large stands for a full disk: the write fails in the middle.
TEST_F(ServeSlots, AFullDiskLeavesTheOldFile) {
  std::string before;
  {
    const ServeProcess server(chat_model(), options());
    server.expect(200, "/completion", completion(std::string(100, 'a')));
    server.expect(200, "/slots/0?action=save", filename("talk"));
    before = read_whole_file(folder_ / "talk");
  }
  const ServeProcess server(chat_model(), options(200000));
  server.expect(200, "/completion", completion(std::string(3000, 'b')));
  const Json json = server.expect(507, "/slots/0?action=save", filename("talk"));
  EXPECT_NE(json.dump().find("no space"), std::string::npos) << json;
  EXPECT_EQ(json.dump().find(folder_.string()), std::string::npos) << "paths of the server are its own";
  EXPECT_EQ(read_whole_file(folder_ / "talk"), before);
  EXPECT_EQ(files(), std::vector<std::string>{"talk"});
  EXPECT_EQ(server.expect(200, "/slots/1?action=restore", filename("talk"))["n_restored"], 107);
}

// Killed at random moments of a save, the name always holds the old file or the new one.
TEST_F(ServeSlots, KilledWhileSaving) {
  std::mt19937 random(20261130);
  SCOPED_TRACE("seed 20261130");
  int64_t n_old = 0;
  int n_killed_before = 0, n_partial = 0;
  bool was_promised = false;
  for (int i = 0; i < 25; ++i) {
    ServeProcess server(chat_model(), options());
    if (i > 0) {
      const Json restored = server.expect(200, "/slots/1?action=restore", filename("talk"));
      const int64_t n = restored.value("n_restored", int64_t{0}), n_new = 2000 + i - 1 + 7;
      EXPECT_TRUE(n == n_new || (n == n_old && !was_promised)) << n << ", not " << n_old << " or " << n_new;
      n_killed_before += n == n_old;
      n_old = n;
    }
    // Another text each time, so that a mixture would not pass.
    server.expect(200, "/completion",
                  completion(std::string(static_cast<size_t>(2000 + i), static_cast<char>('a' + i))));
    const std::string body = filename("talk").dump();
    if (i == 0) {
      server.expect(200, "/slots/0?action=save", filename("talk"));
      n_old = 2007;
      continue;
    }
    RawClient client(server.port());
    client.send("POST /slots/0?action=save HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    was_promised = i % 5 == 0;  // what the answer says is done stays done
    if (was_promised)
      EXPECT_NE(client.read_until("save_ms").find("n_saved"), std::string::npos);
    else
      usleep(random() % 8000);
    server.stop(SIGKILL);
    for (const std::string& name : files()) n_partial += name != "talk";
    for (const std::string& name : files())
      if (name != "talk") {
        EXPECT_NE(name.find(".partial-"), std::string::npos) << name;
        fs::remove(folder_ / name);
      }
  }
  RecordProperty("killed_before_the_rename", n_killed_before);
  RecordProperty("unfinished_files", n_partial);
}

TEST_F(ServeSlots, PropsAndAdapters) {
  const ServeProcess server(chat_model(), options());
  const Json props = Json::parse(server.get("/props").body);
  EXPECT_EQ(props["total_slots"], 2);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_TRUE(props["default_generation_settings"]["params"].contains("temperature"));
  EXPECT_NE(props["chat_template"].get<std::string>().find("messages"), std::string::npos);
  EXPECT_EQ(props["modalities"]["vision"], false);
  EXPECT_EQ(props["abilities"]["infill"], false);
  EXPECT_EQ(props["abilities"]["rerank"], false);
  EXPECT_EQ(props["abilities"]["slot_files"], true);
  EXPECT_EQ(props["bos_token"], "<s>");
  server.expect(400, "/props", {{"x", 1}});
  EXPECT_EQ(server.get("/lora-adapters").body, "[]");
  server.expect(400, "/lora-adapters", Json::array({{{"id", 0}, {"scale", 1}}}));
  EXPECT_EQ(server.post("/lora-adapters", Json::array()).status, 200);
}

}  // namespace
}  // namespace tokamak::test
