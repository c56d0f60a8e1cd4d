"""What goes on beside a test."""

import threading


class Beside:
    """A context: run() on a thread of its own, which is to end soon after `over` is set, as it is when the context is left."""

    def __init__(self):
        self.over, self.thread = threading.Event(), threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        raise NotImplementedError
