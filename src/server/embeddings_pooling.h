// How the rows of a text become one vector, and how vectors are scaled.
#pragma once

#include <span>
#include <string_view>

#include "server/context.h"

namespace tokamak::server {

// The numbers of the model file's key `<arch>.pooling_type`. rank: a head makes a score of one row; see rerank.
enum class Pooling : uint8_t { none, mean, cls, last, rank };

// By `asked` (a name, or "auto" for what the server was started with), else by the model, else mean.
// Errors: unsupported when the model attends to later tokens too, which its vectors need; bad_metadata.
Result<Pooling> choose_pooling(std::string_view asked, const ServerContext& context);
EmbeddingMode embedding_mode(Pooling pooling);  // of rank: the last row

// Divides by a norm of the vector; zeros stay zeros. norm -1: nothing; 0: so that the largest absolute value is 32760;
// 1: the sum of absolute values; p >= 2: the p-norm.
void normalize(std::span<float> vector, int64_t norm);

}  // namespace tokamak::server
