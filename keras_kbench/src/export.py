"""Export, which is not available."""


class ExportArchive:
    def track(self, resource):
        raise NotImplementedError("export is not available on the kbench backend")

    def add_endpoint(self, name, fn, input_signature=None, **kwargs):
        raise NotImplementedError("export is not available on the kbench backend")
