#include "grammar/grammar.h"

#include "grammar/program.h"

namespace tokamak {

Grammar::Grammar(std::unique_ptr<const grammar::Program> program, std::vector<SchemaNote> notes)
    : program_(std::move(program)), notes_(std::move(notes)) {}
Grammar::~Grammar() = default;

size_t Grammar::n_states() const { return program_->n_states(); }
size_t Grammar::n_bytes() const { return sizeof *this + program_->n_bytes(); }

}  // namespace tokamak
