"""What every other module uses: files, options, records, progress."""
