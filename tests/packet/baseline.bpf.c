// What the XDP program is measured against: the least a program can do.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/shared/base.h"

SEC("xdp.frags")
int baseline_drop(struct xdp_md* ctx) {
  (void)ctx;
  return XDP_DROP;
}

// Rewrites both MAC addresses and sends the frame back where it came from.
SEC("xdp.frags")
int baseline_tx(struct xdp_md* ctx) {
  uint8_t* data = (uint8_t*)(long)ctx->data;
  uint8_t* end = (uint8_t*)(long)ctx->data_end;
  if (data + 14 > end) return XDP_DROP;
  uint32_t a = slice_load32(data);
  uint16_t b = slice_load16(data + 4);
  slice_store32(data, slice_load32(data + 6));
  slice_store16(data + 4, slice_load16(data + 10));
  slice_store32(data + 6, a);
  slice_store16(data + 10, b);
  return XDP_TX;
}

// Rewrites both MAC addresses and redirects the frame to where it came from.
SEC("xdp.frags")
int baseline_redirect(struct xdp_md* ctx) {
  if (baseline_tx(ctx) != XDP_TX) return XDP_DROP;
  return (int)bpf_redirect(ctx->ingress_ifindex, 0);
}

char baseline_license[] SEC("license") = "Dual BSD/GPL";
