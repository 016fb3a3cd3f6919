// The table of sentences.
#include "explain/symptoms.h"

#include <array>

namespace snug {
namespace {

constexpr std::array kSentences = {
    KnownSentence{
        "CUBLAS_STATUS_ALLOC_FAILED",
        "The card was full when cuBLAS asked for its workspace: this is out of memory under another name.",
        "It needs the same remedies as any other failed allocation."},
    KnownSentence{"CUDNN_STATUS_NOT_INITIALIZED",
                  "The card was full when cuDNN began: this is usually out of memory under another name.",
                  "It needs the same remedies as any other failed allocation."},
    KnownSentence{"None of the inputs have requires_grad=True",
                  "Gradient checkpointing was switched on before the adapters existed, so no gradient passes "
                  "through the checkpoints: the loss stays where it is, or becomes 0 with a NaN norm.",
                  "In transformers: model.enable_input_require_grads(), or checkpointing with "
                  "use_reentrant=False. snug recomputes from its own program and has no such order."},
    KnownSentence{
        "on the meta device because they were offloaded",
        "accelerate found no room for all weights and keeps some on the CPU or the disk. max_memory "
        "only says where the layers go: adapters, gradients, optimizer states and activations come "
        "later and are not in it.",
        "Count everything first; a 4-bit base (model.quantization: nf4_double) is the usual way out."},
    KnownSentence{
        "modules are dispatched on the CPU or the disk",
        "accelerate found no room for all weights. bitsandbytes cannot compute with weights that are "
        "on the CPU, so it stops here.",
        "The card is too small for this model in this form, or somebody else is on it."},
    KnownSentence{
        "bnb_4bit_compute_dtype=torch.float32",
        "The weights are in 4 bits, but products are computed in fp32, several times as slow as in 16 "
        "bits.",
        "In transformers: bnb_4bit_compute_dtype=torch.bfloat16. In snug: model.dtype: bf16."},
    KnownSentence{"Required library not pre-compiled for this bitsandbytes",
                  "bitsandbytes has no code for this version of CUDA. That is no matter of memory.",
                  "Another version of bitsandbytes or PyTorch; snug needs neither."},
    KnownSentence{"CUDA Setup failed despite GPU being available",
                  "bitsandbytes did not find its CUDA library. That is no matter of memory.",
                  "python -m bitsandbytes says what it looked for; snug does not need it."},
    KnownSentence{
        "OVERFLOW! Rank",
        "fp16 gradients were too large and DeepSpeed left the step out, with a smaller loss scale. A "
        "few at the start are normal; many in a row mean that nothing is learned.",
        "bf16 where the card has it; else a smaller learning rate."},
    KnownSentence{"'grad_norm': nan", "The gradients were not numbers: nothing has been learned since.",
                  "In fp16 that is an overflow (bf16, or a smaller learning rate); with a loss of 0 it is "
                  "checkpointing that was switched on before the adapters existed."},
    KnownSentence{"'grad_norm': 'nan'", "The gradients were not numbers: nothing has been learned since.",
                  "In fp16 that is an overflow (bf16, or a smaller learning rate); with a loss of 0 it is "
                  "checkpointing that was switched on before the adapters existed."},
    KnownSentence{
        "Out of memory: Killed process",
        "The machine's own memory ran out, not the card's: the kernel ended the process.",
        "Fewer worker processes, or a loader that does not hold the whole model in the host's memory."},
    KnownSentence{"unable to allocate CUDA0 buffer",
                  "llama.cpp asks for all layers that -ngl names at once, and the card has less.",
                  "Fewer layers on the card (-ngl), or a smaller quantisation of the file."},
};

}  // namespace

std::span<const KnownSentence> known_sentences() {
  return kSentences;
}

}  // namespace snug
