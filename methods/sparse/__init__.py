"""What the methods on sparse vectors share: n-gram features, their store, top-k search."""
