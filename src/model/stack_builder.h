// Writes layers from their rows (model/layer.h), for every family.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/forward_builder.h"

namespace snug {

// What the layers of one stack read beside the values that go through them.
struct StackInputs {
  std::string name;  // of the stack in the program: "encoder"
  BufferId offsets = kNoBuffer;
  BufferId positions = kNoBuffer;      // where layers rotate
  BufferId relative_bias = kNoBuffer;  // where their positions are relative
  BufferId source = kNoBuffer;         // what the encoder made, where layers see it
  BufferId source_offsets = kNoBuffer;
};

class StackBuilder : protected ForwardBuilder {
 protected:
  using ForwardBuilder::ForwardBuilder;

  // The constants that the layers rotate by; call it before the layers are written.
  void append_frequencies(const std::vector<Layer>& layers);

  BufferId append_layers(const std::vector<Layer>& layers, const StackInputs& inputs, BufferId x);

 private:
  BufferId append_block(const Block& block, const std::string& module, const StackInputs& inputs, BufferId x);
  BufferId append_part(const Attention& attention, const std::string& module, const StackInputs& inputs,
                       BufferId x);
  BufferId append_part(const GatedMlp& mlp, const std::string& module, const StackInputs& inputs, BufferId x);
  BufferId self_attention(const Attention& attention, const std::string& module, const StackInputs& inputs,
                          BufferId x);
  BufferId cross_attention(const Attention& attention, const std::string& module, const StackInputs& inputs,
                           BufferId x);
  BufferId head_norm(const Attention& attention, const std::string& module, BufferId qkv);
  BufferId rotated(const Attention& attention, const StackInputs& inputs, BufferId qkv);
  BufferId frequencies_of(const Attention& attention) const;

  struct Frequencies {
    Rope rope;
    int64_t head_dim = 0;
    BufferId buffer = kNoBuffer;
  };
  std::vector<Frequencies> frequencies_;
  std::string layer_name_;  // of the layer that is being written, in the program
  int next_layer_ = 0;
};

}  // namespace snug
