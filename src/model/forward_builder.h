// The pieces that forward programs of all families are made of: each method appends ops and returns the value
// that they make. Row counts follow from the input, so that encoder and decoder use the same pieces.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "program/builder.h"

namespace snug {

// One linear layer within a product: its name in the files, without ".weight", and its outputs.
struct Projection {
  std::string file_name;
  int64_t rows;
};

class ForwardBuilder {
 public:
  ForwardBuilder(const ModelSpec& spec, const ForwardOptions& options);

 protected:
  BufferId weight(const std::string& name, Dims dims, std::vector<std::string> other_names = {});

  // x's rows with other columns.
  BufferId activation(std::string name, BufferId x, int64_t columns);
  BufferId embed(BufferId table, BufferId ids, const std::string& name);
  BufferId norm(BufferId x, const std::string& name, const std::string& weight_name);
  // Projections of the same input as one product, their weights side by side.
  BufferId linear(BufferId x, const std::string& name, const std::vector<Projection>& projections,
                  bool bias = false);
  BufferId add(BufferId a, BufferId b, const std::string& name);
  // x itself where nothing is dropped.
  BufferId dropped(BufferId x, std::optional<double> rate);

  struct AttentionInputs {
    BufferId q;
    BufferId kv;
    BufferId q_offsets;
    BufferId kv_offsets;
    BufferId bias = kNoBuffer;
  };
  BufferId append_attention(const AttentionInputs& inputs, const std::string& name,
                            AttentionAttributes attributes);

  // What the options' goal asks for: the loss of all targets, or the logits of the last row of each sequence.
  void append_goal(BufferId x, BufferId head);

  const ModelSpec& spec_;
  const ForwardOptions& options_;
  Builder builder_;
  Dim tokens_;
  Dim targets_;
  Dim sequences_;
  Dim offsets_;

 private:
  DropoutAttributes next_dropout(double rate);
  void append_loss(BufferId x, BufferId head);
  void append_logits(BufferId x, BufferId head);

  uint64_t dropouts_ = 0;
};

}  // namespace snug
