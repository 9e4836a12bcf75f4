// Logits of every position of one sequence by llama.cpp, as tools/arch_oracle.py --llama reads them.
//   llama_logits MODEL IDS_FILE OUT.bin N_PROMPT N_CHUNK
// IDS_FILE: token ids as text. OUT.bin: f32 [n_tokens, n_vocab]. N_PROMPT: tokens of the first step, N_CHUNK: of the
// others. Build: c++ -std=c++17 -O1 tools/llama_logits.cpp -I LLAMA/include -I LLAMA/ggml/include, and llama.cpp's
// libraries.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "llama_logits MODEL IDS_FILE OUT.bin N_PROMPT N_CHUNK\n");
    return 2;
  }
  std::ifstream ids_stream(argv[2]);
  std::vector<llama_token> ids{std::istream_iterator<llama_token>(ids_stream), {}};
  const int n_ids = static_cast<int>(ids.size()), n_prompt = std::atoi(argv[4]), n_chunk = std::atoi(argv[5]);
  if (ids.empty() || n_prompt < 1 || n_chunk < 1) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (!model) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = 64;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (!context) return 1;
  const size_t n_vocab = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  std::ofstream out(argv[3], std::ios::binary);
  for (int begin = 0, n = 0; begin < n_ids; begin += n) {
    n = std::min(begin == 0 ? n_prompt : n_chunk, n_ids - begin);
    llama_batch batch = llama_batch_init(n, 0, 1);
    for (int i = 0; i < n; ++i) {
      batch.token[i] = ids[static_cast<size_t>(begin + i)];
      batch.pos[i] = begin + i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    batch.n_tokens = n;
    if (llama_decode(context, batch) != 0) return 1;
    for (int i = 0; i < n; ++i)
      out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context, i)),
                static_cast<std::streamsize>(n_vocab * sizeof(float)));
    llama_batch_free(batch);
  }
  out.flush();
  return out ? 0 : 1;
}
